package sharder_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// setup is a way to run a controller that patches each of its objects once in a while.
type setup struct {
	name      string
	processes int
	ring      bool
	// parts says that each process selects its part of the objects by a label.
	parts bool
	// labelled says that somebody has put the shard label on the objects.
	labelled bool
	// of is the setup whose objects these processes work on; nil: their own.
	of *setup

	c     *cluster
	spent spending
}

// spending is what some updates have cost, in seconds of CPU time.
type spending struct {
	updates                   int64
	controllers, server, etcd float64
}

func (s spending) per1000(seconds float64) float64 { return 1000 * seconds / float64(s.updates) }

// BenchmarkSharderOverhead is the CPU time that a thousand updates of objects cost, where each is
// made by a controller upon the event of the one before: of all processes of the controller, of the
// API server and of etcd. Beside one process without a shard stand
//
//   - that process, on objects that somebody else has put one label on: the least that dividing
//     objects by labels costs;
//   - the same on objects that carry what the ring writes on its own;
//   - five processes without shards that select a fifth of the objects each by a label: what it
//     costs that there are five;
//   - one shard, which is also the sharder, and five of them.
//
// All have turns, there and back. Whatever else loads the machine hits all of them alike.
func BenchmarkSharderOverhead(b *testing.B) {
	const (
		objects = 200
		pace    = time.Second // between the updates of an object
		turn    = 8 * time.Second
		rounds  = 2
	)
	one := &setup{name: "plain", processes: 1}
	labelled := &setup{name: "labelled", processes: 1, labelled: true}
	shard := &setup{name: "shard", processes: 1, ring: true}
	dressed := &setup{name: "dressed", processes: 1, of: shard}
	parts := &setup{name: "parts", processes: 5, parts: true}
	shards := &setup{name: "shards", processes: 5, ring: true}
	all := []*setup{one, labelled, shard, dressed, parts, shards}
	for _, s := range all {
		if s.of != nil {
			s.c = s.of.c
			continue
		}
		s.c = newCrowd(b)
		for i := range objects {
			objects := s.c.client.CoreV1().ConfigMaps(s.c.namespace)
			o, err := objects.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprint("o-", i),
				Labels: map[string]string{"test": s.c.namespace, "part": strconv.Itoa(i % max(1, s.processes))},
			}}, metav1.CreateOptions{})
			require.NoError(b, err)
			if s.labelled {
				_, err := objects.Patch(b.Context(), o.Name, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{%q:"s0"}}}`, shardLabel),
					metav1.PatchOptions{FieldManager: "somebody"})
				require.NoError(b, err)
			}
		}
	}
	for range rounds {
		for _, s := range all {
			s.turn(b, pace, turn)
		}
		for i := range all {
			all[len(all)-1-i].turn(b, pace, turn)
		}
	}
	for _, s := range all {
		b.ReportMetric(s.spent.per1000(s.spent.controllers), s.name+"-s")
		b.ReportMetric(s.spent.per1000(s.spent.server), s.name+"-server-s")
		b.ReportMetric(s.spent.per1000(s.spent.etcd), s.name+"-etcd-s")
	}
	for _, c := range []struct{ ours, peer *setup }{
		{labelled, one},
		{dressed, one},
		{shard, one},
		{parts, one},
		{shards, one},
		{shards, parts},
	} {
		ours, peer := c.ours.spent, c.peer.spent
		name := c.ours.name + "-x-" + c.peer.name
		b.ReportMetric(ours.per1000(ours.controllers)/peer.per1000(peer.controllers), name)
		b.ReportMetric(ours.per1000(ours.server)/peer.per1000(peer.server), name+"-server")
		b.ReportMetric(ours.per1000(ours.controllers+ours.server+ours.etcd)/peer.per1000(peer.controllers+peer.server+
			peer.etcd), name+"-all")
	}
	b.ReportMetric(0, "ns/op") // leaves it out
}

// turn runs the setup for a while, and adds up what that has cost.
func (s *setup) turn(b *testing.B, pace, length time.Duration) {
	b.Helper()
	program, err := s.c.cp.Program(b.Context(), "./reconciler")
	require.NoError(b, err)
	kubeconfig, err := s.c.cp.Kubeconfig(s.c.cp.Admin())
	require.NoError(b, err)
	var patched atomic.Int64       // of all processes that were asked
	var told, working atomic.Int64 // processes
	var settled atomic.Int64       // among how many shards all objects were divided last
	var processes []*e2e.Process
	for i := range s.processes {
		s.c.markers++
		args := []string{"-kubeconfig=" + kubeconfig, "-namespace=" + s.c.namespace, "-pace=" + pace.String()}
		switch {
		case s.ring:
			args = append(args, "-ring="+ringName, fmt.Sprintf("-identity=s%d", i))
		case s.parts:
			args = append(args, fmt.Sprintf("-selector=part=%d", i))
		default:
			args = append(args, "-selector=test")
		}
		p, err := s.c.cp.Run(e2e.Command{
			Name: fmt.Sprintf("%s-%s-%d", s.c.namespace, s.name, s.c.markers), Path: program, Args: args,
			OnLine: func(text string) {
				if text == "working" {
					working.Add(1)
				}
				if n, ok := strings.CutPrefix(text, "settled "); ok {
					members, _ := strconv.ParseInt(n, 10, 64)
					settled.Store(members)
				}
				if n, ok := strings.CutPrefix(text, "patched "); ok {
					more, _ := strconv.ParseInt(n, 10, 64)
					patched.Add(more)
					told.Add(1)
				}
			},
		})
		require.NoError(b, err)
		defer func() { _ = p.Kill() }()
		processes = append(processes, p)
	}
	s.c.eventually(func() bool { return int(working.Load()) == s.processes }, "not all processes work")
	count := func() int64 {
		patched.Store(0)
		told.Store(0)
		for _, p := range processes {
			require.NoError(b, syscall.Kill(p.Pid(), syscall.SIGUSR1))
		}
		s.c.eventually(func() bool { return int(told.Load()) == s.processes }, "not all processes answer")
		return patched.Load()
	}
	if s.ring {
		s.c.eventually(func() bool { return int(settled.Load()) == s.processes },
			"the objects are not divided among %d shards", s.processes)
	}
	time.Sleep(3 * time.Second) // of warming up
	measure := func() spending {
		now := spending{updates: count(), server: cpuSeconds(b, s.c.cp.APIServer), etcd: cpuSeconds(b, s.c.cp.Etcd)}
		for _, p := range processes {
			now.controllers += cpuSeconds(b, p)
		}
		return now
	}
	before := measure()
	time.Sleep(length)
	after := measure()
	for _, p := range processes {
		require.NoError(b, p.Terminate())
	}
	for _, p := range processes {
		s.c.requireEnd(p)
	}
	turn := spending{
		after.updates - before.updates, after.controllers - before.controllers,
		after.server - before.server, after.etcd - before.etcd,
	}
	b.Logf("%-8s %d updates, CPU ms for each: controllers %.2f, API server %.2f, etcd %.2f", s.name, turn.updates,
		turn.per1000(turn.controllers), turn.per1000(turn.server), turn.per1000(turn.etcd))
	s.spent.updates += turn.updates
	s.spent.controllers += turn.controllers
	s.spent.server += turn.server
	s.spent.etcd += turn.etcd
}

// cpuSeconds is the CPU time that a process has taken.
func cpuSeconds(b *testing.B, p *e2e.Process) float64 {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	require.NoError(b, err)
	_, after, _ := bytes.Cut(stat, []byte(") ")) // what is before has the name, which may contain anything
	fields := strings.Fields(string(after))
	ticks := 0
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		require.NoError(b, err)
		ticks += n
	}
	const ticksPerSecond = 100 // of every Linux
	return float64(ticks) / ticksPerSecond
}
