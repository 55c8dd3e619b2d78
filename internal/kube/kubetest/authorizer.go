// Package kubetest has a fake authorizer for tests of what programs do and report when they lack a right.
package kubetest

import (
	"fmt"
	"sync"

	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// reviews is the resource by which a user asks for its rights.
const reviews = "selfsubjectaccessreviews"

// Fake is a fake client of client-go.
type Fake interface {
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
}

// AnswerReviews makes a fake clientset answer SelfSubjectAccessReviews. Its user may ask, and has
// the rights that are allowed.
func AnswerReviews(client Fake, allowed func(of *authorizationv1.ResourceAttributes) bool) {
	client.PrependReactor("create", reviews, func(a clienttesting.Action) (bool, runtime.Object, error) {
		return answered(a, allowed)
	})
}

func answered(a clienttesting.Action, allowed func(of *authorizationv1.ResourceAttributes) bool) (
	bool, runtime.Object, error,
) {
	r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	of := r.Spec.ResourceAttributes
	r.Status.Allowed = of.Resource == reviews || allowed(of)
	return true, r, nil
}

// Authorizer refuses requests to fakes for which their user lacks the right, and answers reviews
// accordingly. The zero value refuses nothing. It is safe for concurrent use.
type Authorizer struct {
	mu    sync.Mutex
	lacks map[string]bool // guarded by mu
	asked int             // guarded by mu
}

// Lack makes the user lack these rights and no others. Each is a verb and a resource, such as
// "patch pods/status".
func (a *Authorizer) Lack(rights ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lacks = map[string]bool{}
	for _, right := range rights {
		a.lacks[right] = true
	}
}

// Guard makes fakes refuse requests for which the user lacks the right.
func (a *Authorizer) Guard(clients ...Fake) {
	for _, c := range clients {
		c.PrependReactor("create", reviews, a.review)
		c.PrependReactor("*", "*", a.refuse)
	}
}

// Reviews returns how many reviews were answered.
func (a *Authorizer) Reviews() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *Authorizer) denies(verb, resource, subresource string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lacks[verb+" "+resource]
}

func (a *Authorizer) refuse(action clienttesting.Action) (bool, runtime.Object, error) {
	verb, resource := action.GetVerb(), action.GetResource()
	if !a.denies(verb, resource.Resource, action.GetSubresource()) {
		return false, nil, nil
	}
	return true, nil, apierrors.NewForbidden(resource.GroupResource(), "",
		//nolint:staticcheck // as the API server says it
		fmt.Errorf("User %q cannot %s resource %q", "u", verb, resource.Resource))
}

func (a *Authorizer) review(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	a.asked++
	a.mu.Unlock()
	return answered(action, func(of *authorizationv1.ResourceAttributes) bool {
		return !a.denies(of.Verb, of.Resource, of.Subresource)
	})
}

// Grants returns the rights that a log asks to grant, one for each line.
func Grants(logs *observer.ObservedLogs) (all []string) {
	for _, l := range logs.FilterMessage("rights are missing: grant all of them").All() {
		all = append(all, fmt.Sprint(l.ContextMap()["grant"]))
	}
	return all
}
