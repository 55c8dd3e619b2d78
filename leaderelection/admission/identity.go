package admission

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// reviewTimeout bounds the request, because a client from leaderelection.LeaseConfig has no
// timeout.
const reviewTimeout = 10 * time.Second

// PodIdentity returns an identity for leaderelection.Config that names this process' Pod, as
// [Policy] requires: <hostname>_<16 random hexadecimal digits>_<Pod UID>.
//
// The UID comes from the API server, by a SelfSubjectReview with client's token. Every
// authenticated user may create one (Kubernetes 1.28). The token must be bound to a Pod, as tokens
// mounted by the kubelet are; otherwise PodIdentity returns an error.
//
// All containers of a Pod and their restarts share its UID. The random digits make the identity
// unique per process, as Config requires. Call PodIdentity once in each process and do not store
// the result. Electors of one process that contend for one Lease need one call each.
func PodIdentity(ctx context.Context, client kubernetes.Interface) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("admission: Pod identity: no hostname: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	me, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("admission: Pod identity: create SelfSubjectReview: %w", err)
	}
	user := me.Status.UserInfo
	uid := user.Extra[podUID]
	if len(uid) != 1 || uid[0] == "" {
		return "", fmt.Errorf("admission: Pod identity: the credentials of %q are not bound to a Pod: "+
			"use the token that the kubelet mounts in it", user.Username)
	}
	return lease.NewIdentity(host) + "_" + uid[0], nil
}
