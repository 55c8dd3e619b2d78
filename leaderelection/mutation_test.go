//go:build !race

package leaderelection_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by a schedule of the named simulation.
var mutations = []struct {
	name       string
	file       string // in internal
	old, new   string
	simulation string
}{
	{
		"the term counts from the read or the answer", "leasehold/holder.go",
		"	h.Term.extend(h.writes.Sent())\n", "	h.Term.extend(h.config.Clock.Now())\n",
		"Elections",
	},
	{
		"there is no margin", "lease/deadline.go",
		"return t.Duration - t.Margin - now.SinceAtMost(sent)", "return t.Duration - now.SinceAtMost(sent)",
		"Elections",
	},
	{
		"suspension does not count", "lease/deadline.go",
		"now.SinceAtMost(sent)", "now.SinceAtLeast(sent)",
		"Elections",
	},
	{
		"the lease is released before work has ended", "leasehold/holder.go",
		"			stopping = nil\n", "			return nil\n",
		"Elections",
	},
	{
		"an unmarked release is trusted", "lease/takeover.go",
		"case r.Released(), ", "case r.Holder() == \"\", ",
		"Elections",
	},
	{
		"deletion is taken for release", "lease/takeover.go",
		"		s.wait = max(s.wait, s.term, s.unseen)\n", "		s.wait = 0\n",
		"Deletions",
	},
	{
		"loss is ignored until the deadline", "leasehold/foreign_writes.go",
		"	h.Term.lose(cause, r.Holder()) //", "	if cause != nil {\n		return nil\n	}\n	//",
		"Elections",
	},
	{
		"an event older than our write is believed", "leasehold/foreign_writes.go",
		"	case order > 0:\n", "	default:\n",
		"Elections",
	},
	{
		"renewals do not restart the wait", "lease/takeover.go",
		"	if !r.keepsSpecOf(s.record) {\n", "	if !s.seen {\n",
		"Elections",
	},
	{
		"an identity is enough to hold the lease", "lease/writelog.go",
		"if SameSpec(&a.spec, &r.lease.Spec) {", "if *a.spec.HolderIdentity == r.Holder() {",
		"Elections",
	},
	{
		"a supervisor waits for no request without an answer", "lease/deadprocess.go",
		"o.Guarded && o.Open == 0 && o.OpenUntil <= died", "o.Guarded && o.OpenUntil <= died",
		"Supervisors",
	},
	{
		"a supervisor waits for no request that has failed", "lease/deadprocess.go",
		"o.Guarded && o.Open == 0 && o.OpenUntil <= died", "o.Guarded && o.Open == 0",
		"Supervisors",
	},
	{
		"a supervisor releases what another process holds", "leasehold/deadprocess.go",
		"case !r.WrittenBy(o.Process):", "case r.Holder() == \"\":",
		"Supervisors",
	},
	{
		"a witness does not wait for requests under way", "leasehold/podwatch.go",
		"left := n.Margin - w.clock", "left := 0*n.Margin - w.clock",
		"Kubelets",
	},
	{
		"any container that has ended is the holder's", "lease/podreport.go",
		"state.Terminated != nil && strings.Contains(state.Terminated.Message, p.Process)", "state.Terminated != nil",
		"Kubelets",
	},
	{
		"a term that ended before the deadline has no requests under way", "leasehold/stepdown.go",
		"h.vacated = lost == nil && err == nil", "h.vacated = lost == nil && (err == nil || h.stepped)",
		"StepDownsOfGuardedWork",
	},
	{
		"a leader that has stepped down is not alone with its Lease", "leasehold/candidate.go",
		"	if c.last != nil && r.WrittenBy(c.config.Process) {\n", "	if c.last != nil {\n",
		"StepDowns",
	},
	{
		"a final phase proves that nothing runs", "lease/podreport.go",
		"pod.UID != p.UID {\n", "pod.UID != p.UID || pod.Status.Phase == corev1.PodFailed {\n" +
			"		return pod.UID == p.UID\n	}\n	if pod.UID == \"\" {\n",
		"Kubelets",
	},
	{
		"a term does not wait for its caches", "../fresh/fresh.go",
		"	return c.wait(ctx, floor, probeDelay)\n", "	_ = floor\n	return nil\n",
		"FreshTerms",
	},
	{
		"a write is noted for another resource", "leasehold/inflight.go",
		"Resource: f.target.resource}", "Resource: \"pods\"}",
		"FreshTerms",
	},
	{
		"a deletion has no version", "leasehold/inflight.go",
		"	case f.deletes:\n		return l.Begin(resource, handover.Deletion)\n",
		"	case f.deletes:\n		return nil\n",
		"FreshTerms",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	const internal = "../internal"
	for _, m := range mutations {
		mutation.Split(t, filepath.Join(internal, m.file), m.old)
	}
	proof.Mutation(t)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join(internal, m.file))
			require.NoError(t, err)
			directory := t.TempDir()
			overlay, binary := mutation.Overlay(t, path, m.old, m.new), filepath.Join(directory, "test")
			out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary,
				".").CombinedOutput()
			require.NoError(t, err, "%s", out)

			begin := time.Now()
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSimulated"+m.simulation+"$",
				mutation.Timeout(t))
			run.Env = append(proof.OfMutant(), "TMPDIR="+directory) // for the trace that it leaves
			out, err = run.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "not caught by:\n%s", out)
			schedule := regexp.MustCompile(`(seed|trial) \d+`).FindString(string(out))
			require.NotEmpty(t, schedule, "%s", out)
			t.Logf("caught in %v by %s", time.Since(begin).Round(time.Millisecond), schedule)
			assert.NotContains(t, string(out), "panic")
		})
	}
}
