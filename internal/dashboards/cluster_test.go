package main

import (
	"errors"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
	bellwether "github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	fenceapi "github.com/bellwether-k8s/bellwether/fencing/api"
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

// scrapeInterval is that of deploy/components/prometheus.
const scrapeInterval = 15 * time.Second

var errNoAnswer = errors.New("no answer")

// process is a program with the real collectors. Its hooks are called here instead of by a cluster.
type process struct {
	target   map[string]string
	registry *client.Registry
	down     bool

	election, census leaderelection.Hooks
	large, small     replica.Hooks
	life, other      leader.Hooks
	server           endpoints.Hooks
	fencer           bellwether.Hooks
}

// with is its registry for one of several elections or rings.
func (p *process) with(label, value string) client.Registerer {
	return client.WrapRegistererWith(client.Labels{label: value}, p.registry)
}

// serves is what it answers to a scrape.
func (p *process) serves(t testing.TB) []*dto.MetricFamily {
	t.Helper()
	if p.down {
		return nil
	}
	families, err := p.registry.Gather()
	require.NoError(t, err)
	return families
}

// cluster is what runs: an operator of three replicas, a daemon with leaders for life, servers, and
// fencers. Of the servers, c was published and is withdrawn. The operator has two rings, large and
// small, the latter with one shard. The daemon and the fencer have two elections each. The first of
// each leads what matters in a test, and the second the other.
type cluster struct {
	t       testing.TB
	history *history

	operators, daemons, servers, fencers []*process

	// What happens in each interval, unless a test says otherwise.
	renewal  error
	renewing bool
	scan     sharder.Scan
	entries  []endpoints.Status
	beating  bool
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{
		t: t, history: newHistory(), renewing: true, beating: true,
		scan:    sharder.Scan{Objects: 30, Placed: 30, Shards: map[string]int{"a": 10, "b": 10, "c": 10}},
		entries: make([]endpoints.Status, 2),
	}
	for _, name := range []string{"a", "b", "c"} {
		p := c.process("operator", name)
		p.large, p.small = hooks(t, p.with("ring", "large")), hooks(t, p.with("ring", "small"))
		p.election = p.large.Election
		c.operators = append(c.operators, p)
		p.large.Lease.OnHeld(shardlease.Epoch{})
	}
	var err error
	for _, name := range []string{"a", "b"} {
		daemon, server, fencer := c.process("daemon", name), c.process("server", name), c.process("fencer", name)
		daemon.life, err = metrics.LeaderForLife(daemon.with("election", "life"))
		require.NoError(t, err)
		daemon.other, err = metrics.LeaderForLife(daemon.with("election", "other"))
		require.NoError(t, err)
		server.server, err = metrics.Endpoints(server.registry)
		require.NoError(t, err)
		fencer.election, err = metrics.LeaderElection(fencer.with("election", "fencer"))
		require.NoError(t, err)
		fencer.census, err = metrics.LeaderElection(fencer.with("election", "census"))
		require.NoError(t, err)
		fencer.fencer, err = metrics.Fencing(fencer.registry)
		require.NoError(t, err)
		c.daemons, c.servers = append(c.daemons, daemon), append(c.servers, server)
		c.fencers = append(c.fencers, fencer)
	}
	standby := c.process("server", "c")
	standby.server, err = metrics.Endpoints(standby.registry)
	require.NoError(t, err)
	standby.server.OnRound(endpoints.Round{Heartbeats: 1})
	c.servers = append(c.servers, standby)
	for _, election := range c.leaders() {
		election.OnStartedLeading(leaderelection.Term{})
	}
	c.daemons[0].life.OnLeading("uid")
	c.daemons[1].life.OnWaiting(make([]leader.Waiting, 1))
	c.daemons[1].other.OnLeading("uid")
	distribution := c.sharder()
	distribution.OnMembership([]string{"a", "b", "c"})
	distribution.OnSettled([]string{"a", "b", "c"})
	small := c.operators[1].small
	small.Lease.OnHeld(shardlease.Epoch{})
	small.Sharder.OnMembership([]string{"b"})
	small.Sharder.OnSettled([]string{"b"})
	return c
}

// hooks are those of a replica of a ring.
func hooks(t testing.TB, registry client.Registerer) replica.Hooks {
	t.Helper()
	var config replica.Config
	require.NoError(t, metrics.Replica(registry, &config))
	return config.Hooks
}

func (c *cluster) process(job, instance string) *process {
	return &process{
		registry: client.NewRegistry(),
		target:   map[string]string{"namespace": "default", "job": job, "instance": instance},
	}
}

func (c *cluster) all() (all []*process) {
	for _, some := range [][]*process{c.operators, c.daemons, c.servers, c.fencers} {
		all = append(all, some...)
	}
	return all
}

// leaders are those of all elections.
func (c *cluster) leaders() []leaderelection.Hooks {
	return []leaderelection.Hooks{
		c.operators[0].election, c.operators[1].small.Election, c.fencers[0].election, c.fencers[1].census,
	}
}

// sharder is that of the large ring.
func (c *cluster) sharder() sharder.Hooks { return c.operators[0].large.Sharder }

// fencer is the fencer that leads.
func (c *cluster) fencer() bellwether.Hooks { return c.fencers[0].fencer }

// blocked is a fence with a hold of that reason.
func blocked(reason string) *v1alpha1.NodeFence {
	return &v1alpha1.NodeFence{Node: "n-" + reason, Status: v1alpha1.Status{
		Phase: v1alpha1.PhaseIsolated, Hold: &v1alpha1.Hold{Reason: reason},
	}}
}

// pass lets time pass, in which everything works as it is set.
func (c *cluster) pass(d time.Duration) {
	c.t.Helper()
	for range d / scrapeInterval {
		time.Sleep(scrapeInterval)
		if c.renewing {
			for _, election := range c.leaders() {
				election.OnRenewal(20*time.Millisecond, c.renewal)
			}
			for _, p := range c.operators {
				p.large.Lease.OnRenewal(20*time.Millisecond, nil)
			}
			c.operators[1].small.Lease.OnRenewal(20*time.Millisecond, nil)
		}
		c.sharder().OnScan(c.scan)
		c.sharder().OnPatch(sharder.Patch{Verb: "assign", Latency: time.Millisecond})
		c.sharder().OnThrottled(time.Millisecond)
		for _, p := range c.servers {
			r := endpoints.Round{Entries: c.entries, Withdrawing: p.target["instance"] == "c"}
			if c.beating && !r.Withdrawing {
				r.Heartbeats = 1
			}
			p.server.OnRound(r)
		}
		for _, p := range c.all() {
			c.history.scrape(p.target, time.Now(), p.serves(c.t))
		}
	}
}

// everything happens at least once.
func (c *cluster) everything() {
	a, b := c.operators[0], c.operators[1]
	b.election.OnNewLeader("a")
	for _, released := range []bool{true, false} {
		b.election.OnStartedLeading(leaderelection.Term{Vacant: time.Second, Released: released})
		b.election.OnStoppedLeading(leaderelection.Term{}, nil)
	}
	b.large.Lease.OnWaiting(shardlease.HolderInfo{})
	ownership, distribution, fencer := a.large.Shard, c.sharder(), c.fencer()
	ownership.OnDrained(api.ObjectRef{}, time.Second, nil)
	ownership.OnBounced(api.ObjectRef{}, nil)
	ownership.OnRefused(api.ObjectRef{}, shard.ErrNotMine)
	distribution.OnMembership([]string{"a", "b"})
	distribution.OnSettled([]string{"a", "b"})
	distribution.OnOverdue(sharder.Overdue{})
	distribution.OnTaken("c")
	distribution.OnCollected("c")
	distribution.OnStorm(nil)
	distribution.OnResource(sharder.ResourceState{
		GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Verb: "list", Err: errNoAnswer,
	})
	fence := &v1alpha1.NodeFence{
		Node:   "n",
		Status: v1alpha1.Status{Phase: v1alpha1.PhasePowering, Triggers: []v1alpha1.Trigger{{Since: metav1.Now()}}},
	}
	fencer.OnRecord(fence)
	fencer.OnTransition(fence, "WorkloadsFreed")
	fencer.OnTransition(fence, "Recovered")
	fencer.OnBlocked("n", v1alpha1.Hold{Reason: "Quorum"})
	fencer.OnCommand("n", "d", agent.ActionOff, time.Second, nil)
	fencer.OnReading("n", "d", agent.PowerOff, time.Second)
	fencer.OnDecision("n", fenceapi.Decision{Verdict: "hold", Reason: "Storm"})
	fencer.OnCommission("n", nil)
	fencer.OnCheck("n", nil)
}
