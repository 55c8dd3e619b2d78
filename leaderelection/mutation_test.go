//go:build !race

package leaderelection_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by a schedule of the named simulation.
var mutations = []struct {
	name       string
	file       string // in internal/lease
	old, new   string
	simulation string
}{
	{
		"the term counts from the re-read", "holder.go",
		"	h.doubt = false\n	h.extend(h.writes.sent)",
		"	h.doubt = false\n	h.writes.sent = h.config.Clock.Now()\n	h.extend(h.writes.sent)",
		"Elections",
	},
	{
		"the term counts from the answer", "holder.go",
		"		h.extend(h.writes.sent)\n	} else {",
		"		h.writes.sent = h.config.Clock.Now()\n		h.extend(h.writes.sent)\n	} else {",
		"SlowAnswers",
	},
	{
		"there is no margin", "deadline.go",
		"return t.Duration - t.Margin - now.SinceAtMost(sent)", "return t.Duration - now.SinceAtMost(sent)",
		"Elections",
	},
	{
		"suspension does not count", "deadline.go",
		"now.SinceAtMost(sent)", "now.SinceAtLeast(sent)",
		"Elections",
	},
	{
		"the lease is released before work has ended", "holder.go",
		"			stopping = nil\n", "			return nil\n",
		"Elections",
	},
	{
		"an unmarked release is trusted", "takeover.go",
		"case r.Released(), ", "case r.Holder() == \"\", ",
		"Elections",
	},
	{
		"deletion is taken for release", "takeover.go",
		"		s.wait = max(s.wait, s.term, s.unseen)\n", "		s.wait = 0\n",
		"Deletions",
	},
	{
		"loss is ignored until the deadline", "watch.go",
		"	h.lose(cause, r.Holder()) //", "	if cause != nil {\n		return nil\n	}\n	//",
		"Elections",
	},
	{
		"an event older than our write is believed", "watch.go",
		"	case order > 0:\n", "	default:\n",
		"Elections",
	},
	{
		"renewals do not restart the wait", "takeover.go",
		"	if !r.keepsSpecOf(s.record) {\n", "	if !s.seen {\n",
		"Elections",
	},
	{
		"an identity is enough to hold the lease", "writelog.go",
		"if apiequality.Semantic.DeepEqual(a.spec, r.lease.Spec) {", "if *a.spec.HolderIdentity == r.Holder() {",
		"Elections",
	},
	{
		"a supervisor waits for no request without an answer", "orphan.go",
		"o.Guarded && o.Open == 0 && o.OpenUntil <= died", "o.Guarded && o.OpenUntil <= died",
		"Supervisors",
	},
	{
		"a supervisor waits for no request that has failed", "orphan.go",
		"o.Guarded && o.Open == 0 && o.OpenUntil <= died", "o.Guarded && o.Open == 0",
		"Supervisors",
	},
	{
		"a supervisor releases what another process holds", "orphan.go",
		"if !r.writtenBy(process) {", "if r.Holder() == \"\" {",
		"Supervisors",
	},
	{
		"a witness does not wait for requests under way", "witness.go",
		"left := n.margin - w.clock", "left := 0*n.margin - w.clock",
		"Kubelets",
	},
	{
		"any container that has ended is the holder's", "pod.go",
		"state.Terminated != nil && strings.Contains(state.Terminated.Message, n.process)", "state.Terminated != nil",
		"Kubelets",
	},
	{
		"a term that ended before the deadline has no requests under way", "holder.go",
		"h.vacated = err == nil", "h.vacated = err == nil || h.stepped",
		"StepDownsOfGuardedWork",
	},
	{
		"a leader that has stepped down is not alone with its Lease", "candidate.go",
		"&& r.writtenBy(c.config.Process)", "&& r.Holder() != c.config.Process",
		"StepDowns",
	},
	{
		"a final phase proves that nothing runs", "pod.go",
		"pod.UID != n.uid {\n", "pod.UID != n.uid || pod.Status.Phase == corev1.PodFailed {\n" +
			"		return pod.UID == n.uid\n	}\n	if pod.UID == \"\" {\n",
		"Kubelets",
	},
}

func TestSimulatedMutationsAreCaught(t *testing.T) {
	const module = ".."
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join(module, "internal", "lease", m.file))
			require.NoError(t, err)
			directory := t.TempDir()
			overlay, binary := mutation.Overlay(t, path, m.old, m.new), filepath.Join(directory, "test")
			out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary,
				".").CombinedOutput()
			require.NoError(t, err, "%s", out)

			begin := time.Now()
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSimulated"+m.simulation+"$",
				"-test.timeout", "3m")
			run.Env = append(os.Environ(), "TMPDIR="+directory) // for the trace that it leaves
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
