package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"
	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Right is what a role grants.
type Right struct {
	Verb            string
	Resource        schema.GroupResource // or a subresource, as in pods/status
	Namespace, Name string               // empty for all
}

// RightsOn returns the rights to these verbs on a resource. name restricts them to one object,
// except create and list, which cannot be restricted.
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

// EventRights returns the rights to record Events in a namespace.
func EventRights(namespace string) []Right {
	return RightsOn(eventsv1.Resource("events"), namespace, "", "create", "patch")
}

// SayMissingRights logs all of these rights that are missing, so that a role is not mended one verb
// at a time. In a program that has a [Role], the role logs them together with those of other parts.
func SayMissingRights(ctx context.Context, client kubernetes.Interface, rights []Right, log *zap.Logger) {
	role := RoleOf(ctx)
	if role != nil {
		role.Needs(client, func() []Right { return rights })
		role.Suspect()
		return
	}
	role = NewRole(log)
	role.Needs(client, func() []Right { return rights })
	role.Review(ctx)
}

// errNoReview is returned for answers that are not those of an authorizer, such as a fake clientset's.
var errNoReview = errors.New("the answers to SelfSubjectAccessReviews are not those of an authorizer")

// MissingRights asks the API server which of these rights the client's user lacks. The error is why it
// cannot be asked.
func MissingRights(ctx context.Context, client kubernetes.Interface, rights []Right) ([]Right, error) {
	// A user that may ask has this right. A fake clientset denies even that, because it decides nothing.
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
	resource, subresource, _ := strings.Cut(right.Resource.Resource, "/")
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.Verb, Group: right.Resource.Group, Resource: resource, Subresource: subresource,
				Namespace: right.Namespace, Name: right.Name,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// String formats the right for messages.
func (r Right) String() string { return r.Verb + " " + r.place() }

// place returns where a right is granted.
func (r Right) place() string {
	where := "in namespace " + r.Namespace
	if r.Namespace == "" {
		where = "by a ClusterRole"
	}
	return fmt.Sprintf("on resource %s of API group %q %s", r.Resource.Resource, r.Resource.Group, where)
}

// Grants returns what to grant, in one line, or "" if nothing is missing.
func Grants(rights []Right) string {
	var places []string
	verbs := map[string][]string{}
	for _, r := range rights {
		at := r.place()
		if verbs[at] == nil {
			places = append(places, at)
		}
		if !slices.Contains(verbs[at], r.Verb) {
			verbs[at] = append(verbs[at], r.Verb)
		}
	}
	for i, at := range places {
		places[i] = strings.Join(verbs[at], ", ") + " " + at
	}
	return strings.Join(places, "; ")
}
