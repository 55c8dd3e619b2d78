package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
)

// evaluation is how often rules are evaluated.
const evaluation = 30 * time.Second

func rules(t testing.TB) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../../metrics/alerts.yaml", false, model.UTF8Validation, promQL)
	require.Empty(t, errs)
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// firing returns the alerts that fire at the end of a time: whose expression has had the same series
// for long enough. Rules are evaluated shortly before a scrape, when what they query is oldest.
func (h *history) firing(t testing.TB, from, to time.Time) (alerts []string) {
	t.Helper()
	engine := testEngine(t)
	for _, rule := range rules(t) {
		active := map[string]time.Time{}
		for at := from.Add(scrapeInterval - time.Second); !at.After(to); at = at.Add(evaluation) {
			now := map[string]time.Time{}
			for _, s := range h.now(t, engine, rule.Expr, at) {
				key := s.Metric.String()
				now[key] = at
				if since, ok := active[key]; ok {
					now[key] = since
				}
			}
			active = now
		}
		for _, since := range active {
			if to.Sub(since) >= time.Duration(rule.For) && !slices.Contains(alerts, rule.Alert) {
				alerts = append(alerts, rule.Alert)
			}
		}
	}
	return alerts
}

// troubles has, for each alert, what is wrong, how long it takes, and what else fires then.
var troubles = map[string]struct {
	happens func(*cluster)
	within  time.Duration
	also    []string
}{
	"NobodyLeads": {happens: func(c *cluster) {
		c.fencers[0].election.OnStoppedLeading(leaderelection.Term{}, errNoAnswer)
	}, within: 3 * time.Minute},
	"NoReplicaReports": {happens: func(c *cluster) {
		for _, p := range c.fencers {
			p.down = true
		}
	}, within: 3 * time.Minute},
	"TwoLead": {happens: func(c *cluster) {
		c.fencers[1].election.OnStartedLeading(leaderelection.Term{})
	}, within: 2 * time.Minute, also: []string{"LeaseIsNotRenewed"}}, // here the second does not renew it
	"LeaseIsNotRenewed": {happens: func(c *cluster) { c.renewal = errNoAnswer }, within: time.Minute},
	"LeaseRequestsFail": {happens: func(c *cluster) {
		c.fencers[1].election.OnFailing(6*time.Minute, errNoAnswer)
	}, within: time.Minute},
	"LeadershipIsLostAgainAndAgain": {happens: func(c *cluster) {
		for range 8 {
			c.fencers[1].election.OnNewLeader("a")
			c.pass(time.Minute)
		}
	}, within: time.Minute},
	"NoLeaderForLife": {happens: func(c *cluster) { c.daemons[0].down = true }, within: 11 * time.Minute},
	"FewerMembersThanShards": {happens: func(c *cluster) {
		c.sharder().OnMembership([]string{"a", "b"})
		c.sharder().OnSettled([]string{"a", "b"})
	}, within: 11 * time.Minute},
	"MembershipDoesNotSettle": {happens: func(c *cluster) {
		c.sharder().OnMembership([]string{"a", "b", "c"})
	}, within: 16 * time.Minute},
	"ObjectsAstray":     {happens: func(c *cluster) { c.scan.Placed = 29 }, within: 16 * time.Minute},
	"ShardDoesNotLetGo": {happens: func(c *cluster) { c.sharder().OnOverdue(sharder.Overdue{}) }, within: time.Minute},
	"ShardsDie": {happens: func(c *cluster) {
		for range 4 {
			c.sharder().OnTaken("c")
		}
	}, within: time.Minute},
	"ShardsExpireTogether": {happens: func(c *cluster) { c.sharder().OnStorm(nil) }, within: time.Minute},
	"HeartbeatIsOld":       {happens: func(c *cluster) { c.beating = false }, within: 90 * time.Second},
	"EntryIsMalformed": {happens: func(c *cluster) {
		c.entries = []endpoints.Status{{Problem: errNoAnswer}}
	}, within: time.Minute},
	"FenceGivenUp": {happens: func(c *cluster) {
		c.fencer().OnRecord(&v1alpha1.NodeFence{Node: "n", Status: v1alpha1.Status{Phase: v1alpha1.PhaseGivenUp}})
	}, within: time.Minute},
	"FenceWaitsForSomebody": {happens: func(c *cluster) {
		c.fencer().OnRecord(blocked("Repeats"))
	}, within: 20 * time.Minute},
	"FenceIsHeldUp": {happens: func(c *cluster) {
		c.fencer().OnRecord(blocked("ProofTooOld"))
	}, within: 20 * time.Minute},
	"StormOfLostNodes": {happens: func(c *cluster) {
		c.fencer().OnRecord(blocked("Storm"))
	}, within: 20 * time.Minute},
	"NodesCannotBeFenced": {happens: func(c *cluster) {
		c.fencer().OnCheck("n", errNoAnswer)
	}, within: 16 * time.Minute},
	"NoNodeCanBeFenced": {happens: func(c *cluster) {
		c.fencer().OnConfiguration(errNoAnswer)
	}, within: 2 * time.Minute},
}

// Each alert fires when it has to, and nothing else does. Before that, when everything is well,
// none fires.
func TestAlertsFire(t *testing.T) {
	var names []string
	for _, rule := range rules(t) {
		names = append(names, rule.Alert)
	}
	for alert := range troubles {
		assert.Contains(t, names, alert)
	}
	for _, alert := range names {
		t.Run(alert, func(t *testing.T) {
			trouble, ok := troubles[alert]
			require.True(t, ok, "nothing here makes it fire")
			var h *history
			var start, well, end time.Time
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				start = time.Now()
				c.pass(20 * time.Minute)
				well = time.Now()
				trouble.happens(c)
				c.pass(trouble.within)
				h, end = c.history, time.Now()
			})
			assert.Empty(t, h.firing(t, start, well), "everything is well")
			assert.ElementsMatch(t, append(trouble.also, alert), h.firing(t, start, end))
		})
	}
}

// A fence that only a human continues is an alert while it is blocked, also after a change of the
// leader, and not longer.
func TestBlockedFences(t *testing.T) {
	human := []string{
		"AgentAlive", "ConfigurationChanged", "NoPowerDevice", "NoReturn", "NotConfigured", "OffUnclear", "Quorum",
		"Repeats", "RestartNeeded", "SameMachine", "StepFails",
	}
	storm := []string{"OwnPartition", "Storm", "ZoneStorm"}
	long := []string{"CoolDown", "OwnHost", "Paused", "ProofTooOld", "Queue", "Rate", "StorageUnreachable"}
	all := slices.Concat(human, storm, long, []string{"SoonUnhealthy", "StillReady"})
	var h *history
	var anHour, changed, ended time.Time
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		before, next := c.fencers[0], c.fencers[1]
		for _, reason := range all {
			before.fencer.OnRecord(blocked(reason))
		}
		c.pass(time.Hour)
		anHour = time.Now()
		before.election.OnStoppedLeading(leaderelection.Term{}, nil)
		next.election.OnStartedLeading(leaderelection.Term{})
		for _, reason := range all {
			before.fencer.OnForgotten("n-" + reason)
			next.fencer.OnRecord(blocked(reason))
		}
		c.pass(time.Minute)
		changed = time.Now()
		for _, reason := range all {
			next.fencer.OnRecord(&v1alpha1.NodeFence{
				Node: "n-" + reason, Status: v1alpha1.Status{Phase: v1alpha1.PhaseFinal},
			})
		}
		c.pass(time.Minute)
		h, ended = c.history, time.Now()
	})
	engine := testEngine(t)
	reasons := func(alert string, at time.Time) (found []string) {
		for _, rule := range rules(t) {
			if rule.Alert == alert {
				for _, s := range h.now(t, engine, rule.Expr, at) {
					found = append(found, s.Metric.Get("reason"))
				}
			}
		}
		return found
	}
	for _, at := range []time.Time{anHour, changed} {
		assert.ElementsMatch(t, human, reasons("FenceWaitsForSomebody", at))
		assert.ElementsMatch(t, storm, reasons("StormOfLostNodes", at))
		assert.ElementsMatch(t, long, reasons("FenceIsHeldUp", at))
	}
	assert.Empty(t, reasons("FenceWaitsForSomebody", ended))
	assert.Empty(t, reasons("StormOfLostNodes", ended))
	assert.Empty(t, reasons("FenceIsHeldUp", ended))
}

// Where no replica of anything has ever been scraped, that is reported, too. Where none has an election,
// that is no trouble.
func TestAlertsWithoutElections(t *testing.T) {
	start := time.Unix(1e9, 0)
	assert.Equal(t, []string{"NoReplicaReports"}, newHistory().firing(t, start, start.Add(3*time.Minute)))
	for what, only := range map[string]func(*cluster) []*process{
		"leaders for life": func(c *cluster) []*process { return c.daemons },
		"servers":          func(c *cluster) []*process { return c.servers },
	} {
		var h *history
		var start, end time.Time
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			for _, p := range c.all() {
				p.down = !slices.Contains(only(c), p)
			}
			start = time.Now()
			c.pass(20 * time.Minute)
			h, end = c.history, time.Now()
		})
		assert.Empty(t, h.firing(t, start, end), what)
	}
}
