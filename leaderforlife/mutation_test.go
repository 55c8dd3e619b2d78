//go:build !race

package leaderforlife_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations remove safeguards one at a time.
var mutations = []mutation.Mutation{
	{
		Name: "the lock is read after the labelled Pods", File: "observe.go",
		Old: `	if v.lock, err = c.cluster.lock(ctx); err != nil {
		return state{}, err
	}
	labelled, listed, err := c.cluster.labelled(ctx)
	if err != nil {
		return state{}, err
	}
`,
		New: `	labelled, listed, err := c.cluster.labelled(ctx)
	if err != nil {
		return state{}, err
	}
	if v.lock, err = c.cluster.lock(ctx); err != nil {
		return state{}, err
	}
`,
		Caught: "TestLockIsReadBeforeTheLabelledPods",
	},
	{
		Name: "every 404 says that there is none", File: "../internal/kube/request.go",
		Old: "{ return Absent(e.Err", New: "{ return apierrors.IsNotFound(e.Err) || Absent(e.Err",
		Caught: "TestOddAnswerDoesNotMakeTwoLeaders",
	},
	{
		Name: "every 404 says so, in a simulation", File: "../internal/kube/request.go",
		Old: "{ return Absent(e.Err", New: "{ return apierrors.IsNotFound(e.Err) || Absent(e.Err",
		Caught: "TestSimulatedLeaders",
	},
	{
		Name: "pauses grow without a bound", File: "candidate.go",
		Old: "maxPause*2/3)", New: "100*maxPause*2/3)",
		Caught: "TestErrorsBackOff",
	},
	{
		Name: "any answer to a read is the object", File: "cluster.go",
		Old: "return kube.Named(o, needs.Name, err)", New: "return err",
		Caught: "TestOddAnswerDoesNotMakeTwoLeaders",
	},
	{
		Name: "an empty object is an empty list", File: "cluster.go",
		Old: `list.ResourceVersion == "" || list`, New: `list`,
		Caught: "TestOddAnswersProveNothing",
	},
	{
		Name: "a page with 403 is a refusal", File: "../internal/kube/answer.go",
		Old: "Forbidden(err) && authorizer.MatchString(err.Error())", New: "apierrors.IsForbidden(err)",
		Caught: "TestOddAnswersProveNothing",
	},
	{
		Name: "a page is a lost race", File: "errors.go",
		Old: "apierrors.IsConflict(err) && kube.Stated(err)", New: "apierrors.IsConflict(err)",
		Caught: "TestOddAnswersProveNothing",
	},
	{
		Name: "an answer without a user is a review", File: "identity.go",
		Old: `err == nil && me.Status.UserInfo.Username == ""`, New: "err == nil && false",
		Caught: "TestOddAnswersProveNothing",
	},
	{
		Name: "an error is not followed by a pause", File: "candidate.go",
		Old: "		clock.Sleep(ctx, pause/2+rand.N(pause))\n", New: "		_, _ = rand.N(pause), clock.Sleep\n",
		Caught: "TestErrorsBackOff",
	},
	{
		Name: "a request that changes nothing is not followed by a pause", File: "candidate.go",
		Old: "		case next == c.last:\n			err = errNoEffect\n", New: "",
		Caught: "TestRequestsThatChangeNothingBackOff",
	},
	{
		Name: "a watch without an answer is waited for", File: "watches.go",
		Old: "clock.System(), requestTimeout,", New: "clock.System(), 1000*requestTimeout,",
		Caught: "TestWatchWithoutAnAnswerIsGivenUp",
	},
	{
		Name: "another process of the Pod is not waited for with a pause", File: "candidate.go",
		Old: "		clock.Sleep(ctx, lockPause)\n", New: "		_ = clock.Sleep\n",
		Caught: "TestSecondProcessOfAPodWaits",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
