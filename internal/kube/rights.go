package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Right is what a role grants.
type Right struct {
	Verb            string
	Resource        schema.GroupResource
	Namespace, Name string // empty: of all
}

// RightsOn returns the rights to these verbs on a resource. name restricts them to one object, but for
// create and list, which cannot be restricted.
func RightsOn(resource schema.GroupResource, namespace, name string, verbs ...string) []Right {
	rights := make([]Right, 0, len(verbs))
	for _, verb := range verbs {
		right := Right{Verb: verb, Resource: resource, Namespace: namespace}
		if verb != "create" && verb != "list" {
			right.Name = name
		}
		rights = append(rights, right)
	}
	return rights
}

// SayMissingRights logs all of these rights that are missing, so that a role is not mended one verb at
// a time. Those on one resource have to follow one another.
func SayMissingRights(ctx context.Context, client kubernetes.Interface, rights []Right, log *zap.Logger) {
	missing, err := MissingRights(ctx, client, rights)
	switch {
	case err != nil:
		log.Debug("cannot ask which rights are missing", zap.Error(err))
	case len(missing) > 0:
		log.Warn("rights are missing: grant all of them", zap.String("grant", Grants(missing)))
	}
}

// errNoReview is returned for answers that are not those of an authorizer, as of a fake clientset.
var errNoReview = errors.New("the answers to SelfSubjectAccessReviews are not those of an authorizer")

// MissingRights asks the API server which of these rights the client's user lacks. An error says why it
// cannot be asked.
func MissingRights(ctx context.Context, client kubernetes.Interface, rights []Right) ([]Right, error) {
	// Who may ask may ask: another answer would be none.
	asking := Right{Verb: "create", Resource: authorizationv1.Resource("selfsubjectaccessreviews")}
	switch allowed, err := HasRight(ctx, client, asking); {
	case err != nil:
		return nil, err
	case !allowed:
		return nil, errNoReview
	}
	var missing []Right
	for _, right := range rights {
		allowed, err := HasRight(ctx, client, right)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// HasRight asks the API server whether the client's user has a right.
func HasRight(ctx context.Context, client kubernetes.Interface, right Right) (bool, error) {
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Resource.Group, Resource: right.Resource.Resource,
				Namespace: right.Namespace, Name: right.Name,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// Grants says what to grant, in one line. Rights on one resource have to follow one another.
func Grants(rights []Right) string {
	var grants []string
	for i := 0; i < len(rights); {
		r := rights[i]
		var verbs []string
		for ; i < len(rights) && rights[i].Resource == r.Resource && rights[i].Namespace == r.Namespace; i++ {
			verbs = append(verbs, rights[i].Verb)
		}
		where := "in namespace " + r.Namespace
		if r.Namespace == "" {
			where = "by a ClusterRole"
		}
		grants = append(grants, fmt.Sprintf("%s on resource %s of API group %q %s", strings.Join(verbs, ", "),
			r.Resource.Resource, r.Resource.Group, where))
	}
	return strings.Join(grants, "; ")
}
