package statemachine

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// TestSimulatedFences explores scenarios: all of them in full, which takes minutes and gigabytes,
// while soaking, and otherwise what can go wrong within smaller budgets.
func TestSimulatedFences(t *testing.T) {
	proof.Simulation(t)
	soak := proof.Soaking()
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			budgets := []budget{{math.MaxUint8, math.MaxUint8, math.MaxUint8, math.MaxUint8}}
			if !soak {
				t.Parallel()
				budgets = bounded
			}
			for _, b := range budgets {
				begin := time.Now()
				r := explore(c.within(b), naive{}, math.MaxInt32, "")
				t.Logf("%v in %v", &r, time.Since(begin).Round(time.Millisecond))
				assert.Empty(t, r.violations)
				assert.Empty(t, r.liveness)
			}
		})
	}
}

// mutations are safeguards taken away one by one, with a scenario that shows what breaks. The
// budgets are the smallest.
var mutations = []struct {
	name     string
	naive    naive
	scenario string
	budget   budget
	broken   string
}{
	{
		"a command is not written down before",
		naive{NoWriteAhead: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"off sent again, without a reading that says on",
	},
	{
		"a command found open is taken for not sent",
		naive{ResendBlindly: true},
		"dead node, crashes only",
		budget{1, 0, 0, 0},
		"off sent again, without a reading that says on",
	},
	{
		"a command is not waited for until it settles",
		naive{NoSettle: true},
		"one device, crashes and faults",
		budget{1, 1, 1, 0},
		"power of a device taken twice in an incident",
	},
	{
		"an exit code is a proof",
		naive{TrustExitCode: true},
		"one device, crashes and faults",
		budget{0, 1, 0, 0},
		"workloads released while the machine has power",
	},
	{
		"on before the release",
		naive{OnBeforeRelease: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"on before the release, or an abort",
	},
	{
		"no look before off",
		naive{NoLook: true},
		"one device, crashes and faults",
		budget{0, 0, 1, 0},
		"off for a node that is Ready",
	},
	{
		"a stop is acknowledged at once",
		naive{AcknowledgeAtOnce: true},
		"one device, admin confirms",
		budget{0, 0, 0, 1},
		"power taken after the stop was acknowledged",
	},
	{
		"a restart forgets what was off",
		naive{RestartForgets: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"power of a device taken twice in an incident",
	},
	{
		"the admin's own mark instead of a taint",
		naive{OwnCordon: true},
		"one device, admin stops, pauses, cordons, deletes the node",
		budget{0, 0, 1, 1},
		"the admin's cordon was removed",
	},
	{
		"one feed is enough",
		naive{OneFeedRelease: true},
		"dead node, two feeds, crashes only",
		budget{0, 0, 0, 0},
		"workloads released while the machine has power",
	},
	{
		"given up without a word",
		naive{GiveUpSilently: true},
		"one device, admin confirms",
		budget{0, 1, 0, 1},
		"the end: a plug is off because of us, and the record does not say so",
	},
	{
		"the out-of-service taint is left for later",
		naive{TaintLate: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"on while our out-of-service taint is on the node",
	},
	{
		"no grace for a boot, and a restart forgets",
		naive{NoBootGrace: true, RestartForgets: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"power of a device taken twice in an incident",
	},
	{
		"any Ready is good",
		naive{AnyReady: true},
		"one device, flapping node",
		budget{1, 1, 1, 0},
		"the end: the node works, says the record, and the machine is without power",
	},
	{
		"a release goes on after a crash without reading",
		naive{NoReleaseRead: true},
		"one device, somebody else powers on",
		budget{1, 0, 0, 0},
		"workloads released while the machine has power",
	},
	{
		"only the level that worked is restored",
		naive{RestoreLevelOnly: true},
		"fallback",
		budget{0, 1, 1, 0},
		"the end: a command to switch off is still under way",
	},
	{
		"the node's identity is not looked at",
		naive{GoneBlind: true},
		"fallback, admin",
		budget{0, 0, 0, 1},
		"off for a node that is gone",
	},
	{
		"the out-of-service taint comes first",
		naive{TaintFirst: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"out-of-service taint before the pods were gone for a while",
	},
	{
		"the out-of-service taint comes at once",
		naive{TaintAtOnce: true},
		"dead node, crashes only",
		budget{0, 0, 0, 0},
		"out-of-service taint before the pods were gone for a while",
	},
	{
		"a stop leaves the taint",
		naive{StopKeepsTaint: true},
		"one device, admin confirms",
		budget{0, 0, 0, 1},
		"the end: our out-of-service taint is on the node",
	},
	{
		"settling is shorter than the device takes",
		naive{SettleTooShort: true},
		"one device, crashes and faults",
		budget{1, 1, 1, 0},
		"power of a device taken twice in an incident",
	},
	{
		"a dump is taken to go on after its last message",
		naive{DumpForGood: true},
		"a dump, the node returns",
		budget{0, 0, 0, 0},
		"pods released while the machine runs",
	},
	{
		"a dump of before the detection counts",
		naive{DumpOfBefore: true},
		"a dump, the node returns",
		budget{0, 0, 0, 0},
		"pods released while the machine runs",
	},
	{
		"pods of a dump are released whatever the node shows",
		naive{DumpReady: true},
		"a dump, the node returns",
		budget{0, 0, 2, 0},
		"pods released from a node that is Ready",
	},
	{
		"pods of a dump are released before that is written down",
		naive{DumpUnsaid: true},
		"a dump, the node returns",
		budget{0, 0, 0, 0},
		"pods released before the record says why",
	},
	{
		"the end of a dump is not waited for",
		naive{DumpCutOff: true},
		"a dump, the node returns",
		budget{0, 0, 0, 0},
		"a dump is cut off that goes on",
	},
	{
		"as commanded means carried out",
		naive{LandedAsRead: true},
		"one device, flapping node",
		budget{1, 1, 1, 0},
		"workloads released while the machine has power",
	},
	{
		"a device that was not seen off may be switched off again",
		naive{UnseenIsOn: true},
		"fallback",
		budget{1, 1, 1, 0},
		"power of a device taken twice in an incident",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	proof.Mutation(t)
	all := map[string]scenario{}
	for _, c := range scenarios() {
		all[c.name] = c
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			c, ok := all[m.scenario]
			require.True(t, ok)
			r := explore(c.within(m.budget), m.naive, 1_000_000, m.broken)
			trace := r.violations[m.broken]
			require.NotEmpty(t, trace, "not caught in %v", &r)
			t.Logf("caught after %d states by: %s", r.states, strings.Join(trace, "; "))
			r = explore(c.within(m.budget), naive{}, 1_000_000, "")
			assert.Empty(t, r.violations, "and only with the mutation")
		})
	}
}
