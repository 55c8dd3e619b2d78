package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// reviewCases are about what a server reports to clients about themselves.
func reviewCases() []Case {
	return []Case{
		{"review: a client learns who it is", func(t *testing.T, c *Clients) {
			me := review(t, c.Typed)
			assert.NotEmpty(t, me.Username)
			assert.Contains(t, me.Groups, "system:authenticated")
			assert.NotContains(t, me.Extra, "authentication.kubernetes.io/pod-name")
		}},
		{"review: credentials that are bound to a Pod say which one", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			config, err := c.OfPod(t.Context(), pod)
			require.NoError(t, err)
			client, err := kubernetes.NewForConfig(config)
			require.NoError(t, err)
			me := review(t, client)
			assert.Equal(t, "system:serviceaccount:"+c.Namespace+":"+ServiceAccount, me.Username)
			assert.Contains(t, me.Groups, "system:authenticated")
			assert.Equal(t, authenticationv1.ExtraValue{pod.Name}, me.Extra["authentication.kubernetes.io/pod-name"])
			assert.Equal(t, authenticationv1.ExtraValue{string(pod.UID)},
				me.Extra["authentication.kubernetes.io/pod-uid"])
		}},
	}
}

func review(t *testing.T, client kubernetes.Interface) authenticationv1.UserInfo {
	t.Helper()
	answer, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return answer.Status.UserInfo
}
