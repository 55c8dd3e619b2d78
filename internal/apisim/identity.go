package apisim

import (
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// identity identifies a client.
type identity struct {
	user     string
	pod, uid string // empty if its credentials are bound to no Pod
}

// ofPod returns the identity of the processes of a Pod.
func ofPod(pod *corev1.Pod) identity {
	return identity{
		"system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName, pod.Name,
		string(pod.UID),
	}
}

const (
	reviewPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

	// The prefixes of paths that name the client: /as/<user>/… and /as/<user>/of/<Pod>/<UID>/….
	userPrefix, podPrefix = "/as/", "/of/"
)

func (i identity) path() string {
	path := userPrefix + url.PathEscape(i.user)
	if i.pod != "" {
		path += podPrefix + i.pod + "/" + i.uid
	}
	return path
}

// identify takes the identity from the path of a request.
func identify(r *http.Request) (i identity) {
	rest, ok := strings.CutPrefix(r.URL.Path, userPrefix)
	if !ok {
		return i
	}
	i.user, rest, _ = strings.Cut(rest, "/")
	if bound, ok := strings.CutPrefix("/"+rest, podPrefix); ok {
		i.pod, bound, _ = strings.Cut(bound, "/")
		i.uid, rest, _ = strings.Cut(bound, "/")
	}
	r.URL.Path, r.URL.RawPath = "/"+rest, ""
	return i
}

// review is the answer to a client that asks for its identity.
func (i identity) review() *authenticationv1.SelfSubjectReview {
	user := authenticationv1.UserInfo{Username: i.user, Groups: []string{"system:authenticated"}}
	if i.pod != "" {
		user.Extra = map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {i.pod}, "authentication.kubernetes.io/pod-uid": {i.uid},
		}
	}
	return &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectReview"},
		Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
	}
}
