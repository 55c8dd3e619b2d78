package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
)

// authority is a fake clientset whose user lacks some verbs on Pods.
type authority struct {
	*fake.Clientset

	mu    sync.Mutex
	lacks map[string]bool // guarded by mu
	asked int             // guarded by mu: reviews of verbs
}

func newAuthority() *authority {
	a := &authority{Clientset: fake.NewSimpleClientset()}
	kubetest.AnswerReviews(a, func(of *authorizationv1.ResourceAttributes) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		return !a.lacks[of.Verb]
	})
	return a
}

func (a *authority) lack(verbs ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lacks = map[string]bool{}
	for _, v := range verbs {
		a.lacks[v] = true
	}
}

func (a *authority) reviews() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func refusal(verb, resource string) error {
	return fmt.Errorf("the request: %w", apierrors.NewForbidden(corev1.Resource(resource), "",
		fmt.Errorf("User %q cannot %s resource %q", "u", verb, resource)))
}

// said are the lines of a log, with what they say to grant.
func said(logs *observer.ObservedLogs) []string {
	var lines []string
	for _, l := range logs.TakeAll() {
		line := l.Message
		if grant, ok := l.ContextMap()["grant"]; ok {
			line += ": " + fmt.Sprint(grant)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestRoleSaysAllThatIsMissingOnceUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		a, role := newAuthority(), NewRole(zap.New(core))
		rights := func() []Right { return RightsOn(corev1.Resource("pods"), "ns", "", "get", "watch", "delete") }
		for i := range 3 { // a part that begins again
			assert.Equal(t, i == 0, role.Needs(a, rights))
		}
		ctx, end := role.Begin(t.Context())
		defer end()
		assert.Same(t, role, RoleOf(ctx))
		synctest.Wait()
		assert.Zero(t, a.reviews(), "nothing was refused")

		a.lack("watch", "delete")
		assert.False(t, role.Refused(refusal("watch", "pods")), "it is not said yet")
		synctest.Wait()
		assert.Equal(t, []string{`rights are missing: grant all of them: ` +
			`watch, delete on resource pods of API group "" in namespace ns`}, said(logs))
		assert.Equal(t, 3, a.reviews())
		assert.True(t, role.Refused(refusal("watch", "pods")))
		assert.True(t, role.Refused(refusal("patch", "pods")), "the same resource")
		assert.False(t, role.Refused(refusal("watch", "nodes")), "another resource")
		for range 1000 {
			role.Refused(refusal("delete", "pods"))
			time.Sleep(time.Second)
		}
		assert.Empty(t, said(logs))
		assert.Less(t, a.reviews(), 3*25, "refusals do not multiply questions")

		a.lack("delete")
		time.Sleep(longestReview)
		synctest.Wait()
		assert.Equal(t, []string{`rights are missing: grant all of them: ` +
			`delete on resource pods of API group "" in namespace ns`}, said(logs))
		a.lack()
		time.Sleep(longestReview)
		synctest.Wait()
		assert.Equal(t, []string{"no right is missing any more"}, said(logs))
		before := a.reviews()
		time.Sleep(time.Hour)
		assert.Equal(t, before, a.reviews())

		a.lack("delete") // as before
		role.Refused(refusal("delete", "pods"))
		synctest.Wait()
		assert.Len(t, said(logs), 1)
	})
}

// A refusal that no right of the role explains must not multiply questions either.
func TestRoleAsksRarelyWhenNothingIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		a, role := newAuthority(), NewRole(zap.New(core))
		role.Needs(a, func() []Right { return RightsOn(corev1.Resource("pods"), "ns", "", "get") })
		_, end := role.Begin(t.Context())
		defer end()
		for range 3600 {
			assert.False(t, role.Refused(refusal("watch", "pods")))
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, a.reviews(), 65)
		assert.Empty(t, said(logs))
	})
}

func TestRoleOfSeveralPartsIsSaidInOneLine(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // only this test reviews
	a, role := newAuthority(), NewRole(zap.New(core))
	a.lack("get", "watch")
	role.Needs(a, func() []Right { return RightsOn(corev1.Resource("pods"), "ns", "", "get") })
	role.Needs(a, func() []Right { return RightsOn(corev1.Resource("nodes"), "", "", "get") })
	ctx, end := role.Begin(ctx)
	end()
	core, own := observer.New(zap.InfoLevel)
	SayMissingRights(ctx, a, RightsOn(corev1.Resource("pods"), "ns", "p", "get", "watch"), zap.New(core))
	assert.Empty(t, said(own), "a part leaves it to the role")
	assert.True(t, role.Review(t.Context()))
	assert.Equal(t, []string{`rights are missing: grant all of them: ` +
		`get, watch on resource pods of API group "" in namespace ns; ` +
		`get on resource nodes of API group "" by a ClusterRole`}, said(logs))

	SayMissingRights(t.Context(), a, RightsOn(corev1.Resource("pods"), "ns", "p", "get"), zap.New(core))
	assert.Len(t, said(own), 1, "there is no role")
}

func TestRoleThatCannotAskSaysSoOnlyInDebugLines(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	a, role := newAuthority(), NewRole(zap.New(core))
	a.lack("get")
	role.Needs(a, func() []Right { return RightsOn(corev1.Resource("pods"), "ns", "", "get") })
	program, end := context.WithCancel(t.Context())
	a.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refusal("create", "selfsubjectaccessreviews")
	})
	assert.False(t, role.Review(program))
	assert.False(t, role.Refused(refusal("get", "pods")), "the caller has to say it")
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, zap.DebugLevel, logs.TakeAll()[0].Level)

	end()
	assert.False(t, role.Review(program))
	assert.Zero(t, logs.Len(), "a program that ends needs no answer")
}

// What is joined is said when all of it is: something else must not be lost.
func TestRefusalsThatAreJoined(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	a, role := newAuthority(), NewRole(zap.New(core))
	a.lack("get")
	role.Needs(a, func() []Right { return RightsOn(corev1.Resource("pods"), "ns", "", "get") })
	pods, other := refusal("get", "pods"), errors.New("no answer")
	assert.False(t, role.Explain(t.Context(), other))
	assert.Empty(t, said(logs), "it is no refusal")
	assert.True(t, role.Explain(t.Context(), fmt.Errorf("scan: %w", errors.Join(pods, pods))))
	assert.Len(t, said(logs), 1)
	assert.False(t, role.Explain(t.Context(), errors.Join(pods, other)))
	assert.False(t, role.Explain(t.Context(), errors.Join(pods, refusal("get", "nodes"))))
	assert.Empty(t, role.refused)
	assert.False(t, role.Refused(errors.Join(other, pods)))
	assert.Len(t, role.refused, 1)
	assert.False(t, (*Role)(nil).Explain(t.Context(), pods))
}

func TestOnlyARefusalIsOne(t *testing.T) {
	role := NewRole(zap.NewNop())
	assert.False(t, role.Refused(nil))
	assert.False(t, role.Refused(errors.New("no answer")))
	assert.Empty(t, role.refused)
	assert.False(t, (*Role)(nil).Refused(refusal("get", "pods")))
	assert.Nil(t, RoleOf(t.Context()))
}

func TestRightOnASubresource(t *testing.T) {
	client := fake.NewSimpleClientset()
	_, err := HasRight(t.Context(), client, Right{Verb: "patch", Resource: corev1.Resource("pods/status")})
	assert.NoError(t, err)
	of := client.Actions()[0].(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).
		Spec.ResourceAttributes
	assert.Equal(t, "pods", of.Resource)
	assert.Equal(t, "status", of.Subresource)
}
