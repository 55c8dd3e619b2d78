package fencing

import (
	"context"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Reasons of a hold that mean that this process makes no progress. The first two may never end.
const (
	agentAlive  = "AgentAlive"  // an agent could not be ended
	stepFails   = "StepFails"   // the API server refuses a step
	proofTooOld = "ProofTooOld" // a proof is too old when it is used
)

// manyRenewals is the number of unused looks and readings after which the record reports them. Five
// in a row are usual.
const manyRenewals = 12

// trouble reports why the fence makes no progress in this process; a zero Reason means that it does.
func (f *fence) trouble(now clock.Reading) statemachine.Trouble {
	switch {
	case f.stuck != nil:
		return statemachine.Trouble{
			Reason: agentAlive, Message: "nothing more is done until the controller is restarted: " + f.stuck.Error(),
		}
	case f.failures.persist(now):
		return statemachine.Trouble{
			Reason: stepFails, Message: "the API server refuses it again and again: " + f.failures.err.Error(),
		}
	case f.renewals >= manyRenewals:
		return statemachine.Trouble{
			Reason: proofTooOld, Message: "what is read of the node is too old when it can be used: the API server " +
				"takes a second or more for an answer, or this process was stopped",
		}
	}
	return statemachine.Trouble{}
}

// sayStuck records that nothing more is done, and repeats the Event. It switches nothing.
func (f *fence) sayStuck(ctx context.Context) error {
	in := statemachine.Input{Fence: f.record, Memory: f.memory, Now: f.clock.Now()}
	in.Trouble = f.trouble(in.Now)
	if write, ok := statemachine.Transition(in).(statemachine.Write); ok && write.Reason == statemachine.Held {
		return f.write(ctx, write)
	}
	f.reportBlocked()
	return nil
}

// sayUnwritten also reports a hold that the API server refuses to write into the record.
func (f *fence) sayUnwritten(record *v1alpha1.NodeFence) {
	hold := record.Status.Hold
	if hook := f.config.Hooks.OnBlocked; hook != nil && f.alarmed != hold.Reason {
		hook(f.node, *hold)
	}
	f.record = record
	f.reportBlocked()
	f.record = nil
}

// failures has those of one step that changes something, since its last success. Looks between its
// tries do not count.
type failures struct {
	first, last clock.Reading // zero without failures
	err         error
}

const (
	// failsAfter is how long a step must have failed before its record reports it.
	failsAfter = time.Minute
	// failuresLast is how long after a failure another one counts as the next.
	failuresLast = 30 * time.Second
)

// count counts an outcome.
func (s *failures) count(now clock.Reading, err error) {
	switch {
	case err == nil:
		*s = failures{}
		return
	case !s.recent(now):
		s.first = now
	}
	s.last, s.err = now, err
}

// counts reports whether the outcome of a step shows if the fence makes progress. Looks and
// readings change nothing, commands have no outcome, and writing a hold is no progress.
func counts(step statemachine.Step, err error) bool {
	switch step := step.(type) {
	case statemachine.Look, statemachine.Read, statemachine.Call, statemachine.Wait:
		return false
	case statemachine.Write:
		return err != nil || step.Reason != statemachine.Held
	}
	return true
}

// recent reports whether the step has just failed.
func (s *failures) recent(now clock.Reading) bool {
	return s.last != (clock.Reading{}) && now.SinceAtLeast(s.last) < failuresLast
}

// persist reports whether the API server has been refusing the step for long. Other errors, such as
// a refused connection, may be over soon.
func (s *failures) persist(now clock.Reading) bool {
	return s.recent(now) && kube.Stated(s.err) && s.last.SinceAtLeast(s.first) >= failsAfter
}
