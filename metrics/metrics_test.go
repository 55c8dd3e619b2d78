package metrics_test

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	fencingapi "github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
	"github.com/bellwether-k8s/bellwether/metrics"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

var errNoAnswer = errors.New("no answer")

// all is a process that uses every package.
type all struct {
	*prometheus.Registry
	replica   replica.Hooks
	life      leader.Hooks
	endpoints endpoints.Hooks
	fencing   fencing.Hooks
}

func register(t *testing.T) *all {
	t.Helper()
	a := &all{Registry: prometheus.NewRegistry()}
	var c replica.Config
	require.NoError(t, metrics.Replica(a, &c))
	a.replica = c.Hooks
	var errs [3]error
	a.life, errs[0] = metrics.LeaderForLife(a)
	a.endpoints, errs[1] = metrics.Endpoints(a)
	a.fencing, errs[2] = metrics.Fencing(a)
	require.NoError(t, errors.Join(errs[:]...))
	return a
}

// value is the value of a series, by the text of its name and labels. Of a histogram it is the
// count. All values are whole numbers.
func (a *all) value(t *testing.T, series string) int {
	t.Helper()
	families, err := a.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for i, l := range m.Label {
				open := ","
				if i == 0 {
					open = "{"
				}
				name += open + l.GetName() + "=" + l.GetValue()
			}
			if len(m.Label) > 0 {
				name += "}"
			}
			switch {
			case name != series:
			case m.Histogram != nil:
				return int(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				return int(m.Counter.GetValue())
			default:
				return int(m.Gauge.GetValue())
			}
		}
	}
	require.Fail(t, "there is no "+series)
	return 0
}

// everything calls each hook once.
func (a *all) everything() {
	election, lease, ownership, distribution := a.replica.Election, a.replica.Lease, a.replica.Shard,
		a.replica.Sharder
	election.OnNewLeader("a")
	election.OnStartedLeading(leaderelection.Term{Vacant: time.Second, Released: true})
	election.OnRenewal(time.Millisecond, errNoAnswer)
	election.OnFailing(time.Minute, errNoAnswer)
	lease.OnWaiting(shardlease.HolderInfo{})
	lease.OnHeld(shardlease.Epoch{})
	lease.OnRenewal(time.Millisecond, nil)
	lease.OnFailing(time.Hour, errNoAnswer)
	lease.OnFailing(0, nil)
	ownership.OnDrained(api.ObjectRef{}, time.Second, nil)
	ownership.OnBounced(api.ObjectRef{}, errNoAnswer)
	ownership.OnRefused(api.ObjectRef{}, shard.ErrNotMine)
	distribution.OnMembership([]string{"a", "b"})
	distribution.OnPatch(sharder.Patch{Verb: "drain", Err: apierrors.NewConflict(schema.GroupResource{}, "x", nil)})
	distribution.OnScan(sharder.Scan{Objects: 10, Placed: 8, Shards: map[string]int{"a": 5, "b": 5}})
	distribution.OnOverdue(sharder.Overdue{})
	distribution.OnTaken("b")
	distribution.OnCollected("b")
	distribution.OnStorm(nil)
	distribution.OnThrottled(time.Second)
	a.life.OnWaiting([]leader.Waiting{{}, {}})
	a.life.OnLeading("uid")
	a.life.OnFailing(time.Second, errNoAnswer)
	a.endpoints.OnRound(endpoints.Round{
		Entries:    []endpoints.Status{{Unchanged: time.Minute}, {Problem: errNoAnswer}},
		Heartbeats: 1, Publications: 2,
	})
	a.endpoints.OnPublished(make([]endpoints.Endpoint, 3))
	a.endpoints.OnExpired(endpoints.Status{})
	a.endpoints.OnMalformed(endpoints.Status{})
	a.endpoints.OnExpireAfter(time.Minute)
	fence := &v1alpha1.NodeFence{
		Node:   "n",
		Status: v1alpha1.Status{Phase: v1alpha1.PhaseGivenUp, Triggers: []v1alpha1.Trigger{{Since: metav1.Now()}}},
	}
	a.fencing.OnRecord(fence)
	a.fencing.OnTransition(fence, "WorkloadsFreed")
	a.fencing.OnTransition(fence, "Recovered")
	a.fencing.OnBlocked("n", v1alpha1.Hold{Reason: "Storm"})
	a.fencing.OnCommand("n", "d", agent.ActionOff, time.Second, nil)
	a.fencing.OnReading("n", "d", agent.PowerOff, time.Second)
	a.fencing.OnDecision("n", fencingapi.Decision{Reason: "Storm"})
	a.fencing.OnCommission("n", errNoAnswer)
	a.fencing.OnCheck("n", errNoAnswer)
	a.fencing.OnConfiguration(errNoAnswer)
}

// Names follow the rules of Prometheus, and two parts of one process do not share one.
func TestNames(t *testing.T) {
	a := register(t)
	a.everything()
	problems, err := testutil.GatherAndLint(a)
	require.NoError(t, err)
	assert.Empty(t, problems)
	_, err = metrics.LeaderElection(a)
	assert.Error(t, err, "they are registered already")
}

// Two rings, or an election beside a ring, need a label that tells them apart: the same one.
func TestSeveralInOneProcess(t *testing.T) {
	replicaAs := func(registry prometheus.Registerer, label, value string) error {
		return metrics.Replica(prometheus.WrapRegistererWith(prometheus.Labels{label: value}, registry),
			&replica.Config{})
	}
	electionAs := func(registry prometheus.Registerer, label, value string) error {
		_, err := metrics.LeaderElection(prometheus.WrapRegistererWith(prometheus.Labels{label: value}, registry))
		return err
	}
	rings := prometheus.NewRegistry()
	assert.NoError(t, replicaAs(rings, "ring", "checksums"))
	assert.NoError(t, replicaAs(rings, "ring", "digests"))
	assert.Error(t, electionAs(rings, "election", "census"), "a registry knows one set of labels of a metric")
	both := prometheus.NewRegistry()
	assert.NoError(t, replicaAs(both, "election", "checksums"))
	assert.NoError(t, electionAs(both, "election", "census"))
}

// A replica has 34 metrics. One error names one of them, and the remedy.
func TestTheErrorOfARegistryNamesTheMetric(t *testing.T) {
	for name, add := range map[string]func(prometheus.Registerer) error{
		"shardlease":     func(a prometheus.Registerer) error { return metrics.Replica(a, &replica.Config{}) },
		"endpoints":      func(a prometheus.Registerer) error { _, err := metrics.Endpoints(a); return err },
		"fencing":        func(a prometheus.Registerer) error { _, err := metrics.Fencing(a); return err },
		"leaderelection": func(a prometheus.Registerer) error { _, err := metrics.LeaderElection(a); return err },
		"leaderforlife":  func(a prometheus.Registerer) error { _, err := metrics.LeaderForLife(a); return err },
		"sharder":        func(a prometheus.Registerer) error { _, err := metrics.Sharder(a); return err },
	} {
		t.Run(name, func(t *testing.T) {
			assert.EqualError(t, add(nil), "metrics: registry of "+name+": must not be nil")
			a := prometheus.NewRegistry()
			require.NoError(t, add(a))
			err := add(a)
			assert.ErrorAs(t, err, &prometheus.AlreadyRegisteredError{})
			assert.Regexp(t, "^metrics: bellwether_"+name+"_[a-z_]+ is in the registry already: tell two elections or "+
				"rings of a process apart by a label, as in prometheus.WrapRegistererWith\\(.*"+
				"duplicate metrics collector registration attempted$", err.Error())
			assert.NotContains(t, err.Error(), "\n")
			other := prometheus.WrapRegistererWith(prometheus.Labels{"b": "c"}, a)
			assert.Regexp(t, "^metrics: register bellwether_"+name+"_[a-z_]+: ", add(other))
		})
	}
}

func TestAlerts(t *testing.T) {
	a := register(t)
	a.everything()
	families, err := a.Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	alerts, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	asked := regexp.MustCompile(`bellwether_\w+`).FindAllString(string(alerts), -1)
	require.NotEmpty(t, asked)
	for _, name := range asked {
		assert.Contains(t, names, name)
	}
}

// Prometheus sees an increase only of a series that was there, and no quantile without an increase.
func TestSeriesOfRareEventsAreThereBefore(t *testing.T) {
	a := register(t)
	for _, series := range []string{
		"leaderelection_terms_total{end=released}", "leaderelection_terms_total{end=lost}",
		"leaderelection_vacancy_seconds{after=release}", "leaderelection_vacancy_seconds{after=death}",
		"shard_drains_total{result=ok}", "shard_drains_total{result=error}",
		"shard_bounces_total{result=ok}", "shard_bounces_total{result=error}",
		"shard_refusals_total{reason=not_mine}", "shard_refusals_total{reason=not_yet}",
		"fencing_holds_total{reason=Storm}", "fencing_commissions_total{result=ok}",
		"fencing_commissions_total{result=error}", "fencing_checks_total{result=ok}",
		"fencing_checks_total{result=error}", "fencing_commands_total{action=off,result=ok}",
		"fencing_commands_total{action=on,result=error}", "fencing_command_duration_seconds{action=off}",
		"fencing_command_duration_seconds{action=on}",
	} {
		assert.Zero(t, a.value(t, "bellwether_"+series), series)
	}
}

func TestLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := register(t)
		election, distribution := a.replica.Election, a.replica.Sharder
		election.OnStartedLeading(leaderelection.Term{}) // there was no leader before
		election.OnStoppedLeading(leaderelection.Term{}, nil)
		election.OnStartedLeading(leaderelection.Term{Vacant: 20 * time.Second})
		assert.Equal(t, 1, a.value(t, "bellwether_leaderelection_vacancy_seconds{after=death}"))
		assert.Equal(t, 1, a.value(t, "bellwether_leaderelection_terms_total{end=released}"))
		assert.Equal(t, 1, a.value(t, "bellwether_leaderelection_leading"))
		assert.InDelta(t, time.Now().Unix(), a.value(t, "bellwether_leaderelection_last_renewal_timestamp_seconds"), 1)

		distribution.OnMembership([]string{"a", "b"})
		distribution.OnScan(sharder.Scan{Objects: 10, Placed: 7, Shards: map[string]int{"a": 10}})
		time.Sleep(time.Minute)
		assert.Equal(t, 1, a.value(t, "bellwether_sharder_unsettled"))
		distribution.OnScan(sharder.Scan{Objects: 10, Placed: 10, Shards: map[string]int{"b": 10}})
		distribution.OnSettled([]string{"a", "b"})
		assert.Equal(t, 180, a.value(t, "bellwether_sharder_unplaced_object_seconds_total"))
		assert.Equal(t, 1, a.value(t, "bellwether_sharder_settle_duration_seconds"))
		assert.Zero(t, a.value(t, "bellwether_sharder_unsettled"))
		assert.Equal(t, 1, testutil.CollectAndCount(a, "bellwether_sharder_shard_objects"), "a has none any more")

		election.OnStoppedLeading(leaderelection.Term{}, errNoAnswer)
		assert.Zero(t, a.value(t, "bellwether_sharder_members"), "another replica distributes now")
		assert.Zero(t, testutil.CollectAndCount(a, "bellwether_sharder_shard_objects"))
	})
}

// An instance that never gets into the store is ready, too: its heartbeat is as old as can be.
func TestInstanceIsReadyUnlessItIsWithdrawn(t *testing.T) {
	a := register(t)
	ready := func() int { return a.value(t, "bellwether_endpoints_ready") }
	assert.Zero(t, ready(), "it has not begun")
	a.endpoints.OnRound(endpoints.Round{Err: errNoAnswer})
	assert.Equal(t, 1, ready())
	a.endpoints.OnRound(endpoints.Round{Withdrawing: true})
	assert.Zero(t, ready())
	a.endpoints.OnRound(endpoints.Round{Heartbeats: 1})
	assert.Equal(t, 1, ready())
}

func TestConfigurationThatIsUsableAgain(t *testing.T) {
	a := register(t)
	assert.Zero(t, a.value(t, "bellwether_fencing_configuration_unusable"), "nor is it in a process that does not lead")
	a.fencing.OnConfiguration(errNoAnswer)
	assert.Equal(t, 1, a.value(t, "bellwether_fencing_configuration_unusable"))
	a.fencing.OnConfiguration(nil)
	assert.Zero(t, a.value(t, "bellwether_fencing_configuration_unusable"))
}

func TestFencesAndChecksAreCountedWhileTheyExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := register(t)
		assert.Zero(t, a.value(t, "bellwether_fencing_fences{phase=GivenUp}"))
		fence := &v1alpha1.NodeFence{Node: "n", Status: v1alpha1.Status{Phase: v1alpha1.PhasePowering}}
		a.fencing.OnRecord(fence)
		fence.Status.Phase = v1alpha1.PhaseGivenUp
		a.fencing.OnRecord(fence)
		a.fencing.OnRecord(&v1alpha1.NodeFence{Node: "m", Status: v1alpha1.Status{Phase: v1alpha1.PhaseGivenUp}})
		assert.Equal(t, 2, a.value(t, "bellwether_fencing_fences{phase=GivenUp}"))
		a.fencing.OnForgotten("m")
		assert.Equal(t, 1, a.value(t, "bellwether_fencing_fences{phase=GivenUp}"))

		blocked := func() int { return a.value(t, "bellwether_fencing_blocked_fences{reason=Repeats}") }
		assert.Zero(t, blocked())
		fence.Status = v1alpha1.Status{Phase: v1alpha1.PhaseIsolated, Hold: &v1alpha1.Hold{Reason: "Repeats"}}
		a.fencing.OnRecord(fence)
		assert.Equal(t, 1, blocked())
		fence.Status = v1alpha1.Status{Phase: v1alpha1.PhaseFinal}
		a.fencing.OnRecord(fence)
		assert.Zero(t, blocked(), "it has ended")

		a.fencing.OnCheck("n", errNoAnswer)
		a.fencing.OnCheck("m", nil)
		assert.Equal(t, 1, a.value(t, "bellwether_fencing_checked_nodes{ready=false}"))
		time.Sleep(40 * time.Minute)
		a.fencing.OnCheck("m", nil)
		time.Sleep(40 * time.Minute)
		assert.Zero(t, a.value(t, "bellwether_fencing_checked_nodes{ready=false}"), "n is not checked any more")
		assert.Equal(t, 1, a.value(t, "bellwether_fencing_checked_nodes{ready=true}"))
	})
}
