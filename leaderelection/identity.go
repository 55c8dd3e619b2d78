package leaderelection

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// reviewTimeout is for one question: the client may have no timeout of its own, as that of [LeaseConfig].
const reviewTimeout = 10 * time.Second

// PodIdentity returns an identity for [Config] by which an [AdmissionPolicy] recognises this Pod:
// <hostname>_<16 random hexadecimal digits>_<Pod UID>.
//
// The Pod's UID is what the API server knows of client's token, so it is right or an error: the token has to be bound to
// a Pod, as those are that the kubelet mounts. It is asked for by a SelfSubjectReview, which every authenticated user may
// create (Kubernetes 1.28).
//
// A Pod's UID is the same for all its containers and their restarts; the random digits make the identity unique per
// process, as Config requires. So call PodIdentity once in each process and do not keep what it returns; electors of one
// process that contend for one Lease need a call each.
func PodIdentity(ctx context.Context, client kubernetes.Interface) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("leaderelection: identity of the Pod: no hostname: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	me, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("leaderelection: identity of the Pod: create SelfSubjectReview: %w", err)
	}
	user := me.Status.UserInfo
	uid := user.Extra[podUID]
	if len(uid) != 1 || uid[0] == "" {
		return "", fmt.Errorf("leaderelection: identity of the Pod: the credentials of %q are not bound to a Pod: "+
			"use the token that the kubelet mounts in it", user.Username)
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return host + "_" + hex.EncodeToString(random) + "_" + uid[0], nil
}
