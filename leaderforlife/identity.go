package leaderforlife

import (
	"context"
	"errors"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Keys of the extra user info that names the Pod of a mounted token.
const (
	podNameExtra = "authentication.kubernetes.io/pod-name"
	podUIDExtra  = "authentication.kubernetes.io/pod-uid"
)

// whoAmI returns the Pod of this process. The credentials decide if they name a Pod. A name alone
// proves nothing, because a process that has outlived its Pod finds the next Pod of that name, as
// in a StatefulSet.
func (k *cluster) whoAmI(ctx context.Context) (podID, error) {
	token, err := k.tokenPod(ctx)
	if err != nil {
		return podID{}, err
	}
	name := k.config.podName
	for _, other := range []string{token.name, os.Getenv("POD_NAME")} {
		if name == "" {
			name = other
		}
	}
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return podID{}, fmt.Errorf("no name of a Pod: set it by WithPodName: %w", err)
		}
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return podID{}, fmt.Errorf("the name of this Pod: %s (got %q): set it by WithPodName or the environment "+
			"variable POD_NAME", problems[0], name)
	}
	pod, err := k.pod(ctx, name)
	switch {
	case err != nil:
		return podID{}, err
	case pod == nil:
		return podID{}, fmt.Errorf("%w: there is no Pod %s/%s; if that is not its name, set it by WithPodName or the "+
			"environment variable POD_NAME, and its namespace by WithNamespace", ErrPodGone, k.config.namespace, name)
	case pod.UID == "":
		return podID{}, fmt.Errorf("pod %s/%s has no UID, which identifies a leader: in a test with fakes, set one",
			k.config.namespace, name)
	case token.uid != "" && pod.UID != token.uid:
		return podID{}, fmt.Errorf("%w: Pod %s/%s has UID %s, but the credentials of this process are bound to Pod "+
			"%s with UID %s", ErrPodGone, k.config.namespace, name, pod.UID, token.name, token.uid)
	}
	return podID{name, pod.UID}, nil
}

// tokenPod returns the Pod that the client's credentials are bound to. It is empty if they are not
// bound or the API server does not report it.
func (k *cluster) tokenPod(ctx context.Context) (podID, error) {
	if c, ok := k.config.client.AuthenticationV1().RESTClient().(*rest.RESTClient); ok && c == nil {
		// a fake clientset may not know reviews
		return podID{}, nil
	}
	var me *authenticationv1.SelfSubjectReview
	err := k.do(ctx, kube.Right{Verb: "create", Resource: authenticationv1.Resource("selfsubjectreviews")},
		func(ctx context.Context) (err error) {
			me, err = k.config.client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
				&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err == nil && me.Status.UserInfo.Username == "" {
				err = errors.New("the answer names no user, so it is not an API server's")
			}
			return err
		})
	switch {
	case k.missing(err, "without SelfSubjectReviews, the UID of this Pod is that of whichever has its name now"):
		return podID{}, nil
	case err != nil:
		return podID{}, err
	}
	extra := func(key string) string {
		if values := me.Status.UserInfo.Extra[key]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	return podID{extra(podNameExtra), types.UID(extra(podUIDExtra))}, nil
}
