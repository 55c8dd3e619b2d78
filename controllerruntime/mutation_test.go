package controllerruntime_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

var mutations = []mutation.Mutation{
	{
		Name: "a manager returns while reconcilers run", File: "standby.go",
		Old: "new(time.Duration(-1))", New: "new(time.Minute)",
		Caught: "TestAReconcilerThatIgnoresItsContextKeepsTheTerm",
	},
	{
		Name: "reads are not fresh", File: "term_cache.go",
		Old: "u.err = t.wait(*c)", New: "_ = t.wait", Caught: "TestReadsOfATermAreFresh",
	},
	{
		Name: "what is warm counts as fresh", File: "term_cache.go",
		Old: "func (t *termCache) read(ctx context.Context, k kind, f func() error) error {",
		New: "func (t *termCache) read(ctx context.Context, k kind, f func() error) error {\n" +
			"	if len(t.warm.informersOf(k)) > 0 {\n		return f()\n	}",
		Caught: "TestReadsOfATermAreFresh",
	},
	{
		Name: "an informer that a term makes counts as fresh", File: "term_cache.go",
		Old:    "case !slices.Equal(before, now): // f has made one",
		New:    "case !slices.Equal(before, now):\n			return err",
		Caught: "TestAnInformerThatATermMakesIsFresh",
	},
	{
		Name: "the client of a term reads the cache of the process", File: "standby.go",
		Old: "		own := *o.Client.Cache\n		o.Client.Cache = &own\n", New: "",
		Caught: "TestReadsOfATermAreFresh",
	},
	{
		Name: "a transform removes versions", File: "transform.go",
		Old: "			object.SetResourceVersion(version)\n", New: "			_, _ = object, version\n",
		Caught: "TestATransformKeepsObjectsAndTheirVersions",
	},
	{
		Name: "a transform returns nil", File: "transform.go",
		Old: "			after = before\n", New: "			_ = before\n",
		Caught: "TestATransformKeepsObjectsAndTheirVersions",
	},
	{
		Name: "event handlers are not removed", File: "term_cache.go",
		Old: "		remove()\n", New: "		_ = remove\n", Caught: "TestEventHandlersEndWithTheirTerm",
	},
	{
		Name: "event handlers are not waited for", File: "term_informer.go",
		Old:    "	if h.activity.begin() {\n		defer h.activity.done()\n		handle()\n	}\n",
		New:    "	handle()\n",
		Caught: "TestARunningEventHandlerKeepsTheTerm",
	},
	{
		Name: "a context that is not of the term", File: "standby.go",
		Old: "	o.BaseContext = func() context.Context { return ctx }\n", New: "	_ = ctx\n",
		Caught: "TestARequestIsOfItsTermOnly",
	},
	{
		Name: "names of controllers are used up", File: "standby.go",
		Old: "	o.Controller.SkipNameValidation = new(true) // the term before had controllers of the same names\n",
		New: "", Caught: "TestCachesSurviveTerms",
	},
	{
		Name: "an index is made in each term", File: "term_cache.go",
		Old: "if !again && t.warm.isIndexed(i) {", New: "if !again && t.warm.isIndexed(i) && t.over == nil {",
		Caught: "TestAnIndexServesAllTerms",
	},
	{
		Name: "an informer that was removed is waited for", File: "warm_cache.go",
		Old: "		delete(w.known, k)\n", New: "", Caught: "TestAnInformerThatATermRemovesIsForgotten",
	},
	{
		Name: "a term waits for all kinds", File: "term_cache.go",
		Old: "	asked := make([]kind, 0, len(t.asked))\n",
		New: "	asked := make([]kind, 0, len(t.asked))\n" +
			"	for k := range t.warm.known {\n		asked = append(asked, k)\n	}\n",
		Caught: "TestAKindThatIsGoneStopsOnlyItself",
	},
	{
		Name: "a candidate may be cold", File: "standby.go",
		Old: "if s.fill(ctx, process) {", New: "if true {", Caught: "TestACandidateIsWarm",
	},
	{
		Name: "a standby lists as soon as the leader", File: "warm_cache.go",
		Old: "newInformer = newHeldInformer", New: "newInformer = toolscache.NewSharedIndexInformer",
		Caught: "TestStandbysListAfterTheLeader",
	},
	{
		Name: "a term of another elector has no end", File: "standby.go",
		Old: "ctx = handover.WithTerm(ctx, ctx.Done())", New: "_ = handover.WithTerm",
		Caught: "TestACacheIsHeldAgainAfterATermOfAnyElector",
	},
	{
		Name: "a term of a shard waits for versions of objects of others", File: "warm_cache.go",
		Old: "source = own.Source()", New: "_ = own",
		Caught: "TestATermOfAShardDoesNotWaitForObjectsOfOthers",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
