//go:build !race

package sharder_test

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// mutations are plausible mistakes in lines whose reason is not known. A schedule of the simulation
// must catch each of them, and its violation must match caught.
var mutations = []struct {
	name     string
	file     string
	old, new string
	caught   string // a regular expression for the violation
	test     string // whose schedules must catch it; empty: TestSimulatedFamilies
}{
	{
		"a root is assigned before its children are moved", "family_mover.go",
		"	lists := f.listChildren(", "	for _, m := range b.moves {\n		m.decision.Record.ChildFloor = " +
			"map[string]string{\"pods\": \"\"}\n		_ = f.assigner.patch(ctx, m.root, m.decision)\n	}\n" +
			"	lists := f.listChildren(",
		"does not see child", "",
	},
	{
		"the versions of children are ignored", "shard/caches.go",
		"i.complete(floor)", "i.complete(floor[:0])",
		"does not see child", "",
	},
	{
		"a cache of the roots is taken for one of their children", "shard/caches.go",
		"for _, i := range c.running[resource] { if !i.covers(root.Namespace)", "for _, i := range c.running" +
			"[schema.GroupVersionResource{Version: \"v1\", Resource: \"configmaps\"}] {\n			if " +
			"!i.covers(root.Namespace)",
		"does not see child|begins stale", "",
	},
	{
		"what the former shard has deleted is not waited for", "shard/caches.go",
		"if i.mayShowDeleted(root.UID, r.Childless[name]) {", "if false {",
		"begins stale .* has deleted", "TestSimulatedReturns",
	},
	{
		"a list is taken for roots that are let go of meanwhile", "family_mover.go",
		"	busy.Wait()\n	for _, m := range b.moves {",
		"	busy.Wait()\n	f.families.add(nil)\n	for _, m := range append(b.moves, f.families.take(ctx)...) " +
			"{\n		if m == nil {\n			continue\n		}",
		"does not see child", "",
	},
	{
		"a child that has got another root is let go of while there is work on it", "shard/children.go",
		"	if len(atWork) > 0 ||", "	if len(atWork) < 0 ||",
		"overlap", "TestSimulatedAdoptions",
	},
	{
		"work on a child is not work on its root", "shard/do.go",
		"	p := &workItem{at: at,", "	if q.forChild() {\n		at = q.child\n	}\n	p := &workItem{at: at,",
		"overlap", "",
	},
	{
		"a record of an epoch that never is keeps its object waiting for that", "internal/protocol/decide.go",
		"return Decision{Verb: Annul, Record: s.annulled()}", "return Decision{Verb: Hold, About: owner}",
		"is not looked after", "TestSimulatedPoison",
	},
	{
		"an object is given away while somebody is at work on it", "internal/protocol/handover.go",
		"		case h.AtWork || h.Pending:", "		case false:",
		"overlap|writes to", "TestSimulatedHandovers",
	},
	{
		"a root that has lost its record begins without a floor", "assign.go",
		"] = a.families.floor(holding{d.Label, i})", "], _ = \"\", i",
		"does not see child", "TestSimulatedReplays",
	},
	{
		"a program writes without its shard", "proxy/decide.go",
		"	}\n	return do\n}", "	}\n	return pass\n}",
		"writes to|changes the marks", "TestSimulatedProxies",
	},
	{
		"a program creates children without its shard", "proxy/write.go",
		"	case child == nil:", "	case child == nil || true:",
		"writes to", "TestSimulatedProxies",
	},
	{
		"an update without a version restores the marks of an earlier one", "proxy/write.go",
		"m.resourceVersion, pinned = current.resourceVersion, true", "pinned = true",
		"changes the marks", "TestSimulatedProxies",
	},
	{
		"a JSON patch restores the marks of an earlier version", "proxy/patch.go",
		"tests = append(tests, test(\"/metadata/resourceVersion\", current.resourceVersion))", "_ = tests",
		"changes the marks", "TestSimulatedProxies",
	},
	{
		"a program sees the marks in answers to its writes", "proxy/proxy.go",
		"	return editBody(r, c, edit)", "	return nil",
		"reads marks", "TestSimulatedProxies",
	},
}

// enough is by how many schedules a mutation must be caught. Most are within a hundred. How long they take
// is a matter of the machine.
const enough = 2000

func TestMutationsAreCaught(t *testing.T) {
	for _, m := range mutations {
		mutation.Split(t, m.file, m.old)
	}
	proof.Mutation(t)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(m.file)
			require.NoError(t, err)
			directory := t.TempDir()
			overlay, binary := mutation.Overlay(t, path, m.old, m.new), filepath.Join(directory, "test")
			out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o",
				binary, ".").CombinedOutput()
			require.NoError(t, err, "%s", out)

			begin := time.Now()
			run := exec.CommandContext(t.Context(), binary, "-test.run",
				"^"+cmp.Or(m.test, "TestSimulatedFamilies")+"$", mutation.Timeout(t))
			// The run ends with the first violation, and leaves a trace in the directory.
			run.Env = append(proof.OfMutant(), schedulesVariable+"="+strconv.Itoa(enough), "TMPDIR="+directory)
			out, err = run.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "not caught:\n%s", out)
			violation := regexp.MustCompile(`seed \d+: .*(` + m.caught + `).*`).FindString(string(out))
			require.NotEmpty(t, violation, "%s", out)
			t.Logf("caught in %v by %s", time.Since(begin).Round(time.Millisecond), violation)
		})
	}
}
