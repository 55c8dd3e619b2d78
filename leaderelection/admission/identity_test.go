package admission_test

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/leaderelection/admission"
)

// reviewed returns a client whose SelfSubjectReview has this answer.
func reviewed(extra map[string]authenticationv1.ExtraValue, err error) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		review := &authenticationv1.SelfSubjectReview{}
		review.Status.UserInfo = authenticationv1.UserInfo{Username: "system:serviceaccount:ns:daemon", Extra: extra}
		return true, review, err
	})
	return client
}

func TestPodIdentityIsUniquePerProcessAndEndsWithTheUID(t *testing.T) {
	const uid = "5e2f36a4-9f33-4a0c-b3c5-6a4d3c9d3f10"
	host, err := os.Hostname()
	require.NoError(t, err)
	client := reviewed(map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-uid": {uid}}, nil)
	seen := map[string]bool{}
	for range 3 {
		identity, err := admission.PodIdentity(t.Context(), client)
		require.NoError(t, err)
		assert.Regexp(t, "^"+regexp.QuoteMeta(host)+"_[0-9a-f]{16}_"+uid+"$", identity)
		seen[identity] = true
		_, err = leaderelection.New(client, leaderelection.Config{Namespace: "ns", Name: "l", Identity: identity})
		require.NoError(t, err)
	}
	assert.Len(t, seen, 3)
}

func TestPodIdentityNeedsATokenBoundToAPod(t *testing.T) {
	for name, extra := range map[string]map[string]authenticationv1.ExtraValue{
		"no token":            nil,
		"token without a Pod": {"authentication.kubernetes.io/credential-id": {"JTI=1"}},
		"empty UID":           {"authentication.kubernetes.io/pod-uid": {""}},
		"two UIDs":            {"authentication.kubernetes.io/pod-uid": {"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			identity, err := admission.PodIdentity(t.Context(), reviewed(extra, nil))
			assert.Empty(t, identity)
			assert.EqualError(t, err, `admission: Pod identity: the credentials of "system:serviceaccount:ns:daemon" `+
				"are not bound to a Pod: use the token that the kubelet mounts in it")
		})
	}
	refused := errors.New("refused")
	_, err := admission.PodIdentity(t.Context(), reviewed(nil, refused))
	assert.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, "create SelfSubjectReview")
}
