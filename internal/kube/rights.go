package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

// errNoReview is returned for answers that are not those of an authorizer, as of a fake clientset.
var errNoReview = errors.New("the answers to SelfSubjectAccessReviews are not those of an authorizer")

// MissingRights asks the API server which of these rights the client's user lacks. An error says why it
// cannot be asked.
func MissingRights(ctx context.Context, client kubernetes.Interface, rights []Right) ([]Right, error) {
	// Who may ask may ask: another answer would be none.
	asking := Right{Verb: "create", Resource: authorizationv1.Resource("selfsubjectaccessreviews")}
	switch allowed, err := hasRight(ctx, client, asking); {
	case err != nil:
		return nil, err
	case !allowed:
		return nil, errNoReview
	}
	var missing []Right
	for _, right := range rights {
		allowed, err := hasRight(ctx, client, right)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

func hasRight(ctx context.Context, client kubernetes.Interface, right Right) (bool, error) {
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
