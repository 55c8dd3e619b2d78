package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

const (
	leaseDuration = 5 * time.Second // D
	scanInterval  = 5 * time.Second
	gcPeriod      = time.Minute
	// settling is how long a single object may take to be in order after the last fault.
	settling = 3*leaseDuration + scanInterval + 30*time.Second

	// compactEvery is how often etcd is compacted. It keeps twice as much.
	compactEvery = 2 * time.Minute

	exitLost = shardlease.ExitCodeNotHeld
)

// plan is a run.
type plan struct {
	replicas, objects int
	// lasts is how long faults happen.
	lasts time.Duration
	// rest is how long a replica is left alone at most between two faults.
	rest time.Duration
	// serverRest is that of the control plane, which suffers nothing if it is zero.
	serverRest time.Duration
	// rate is how many things users do per second; a quarter of that are edits of labels.
	rate int
	// faults of replicas.
	faults []e2e.Fault
	// slowness is how many times longer than usual work takes.
	slowness float64
	// build is flags for the build of the replicas.
	build []string
}

// cluster is a control plane, the replicas, the users and the judge.
type cluster struct {
	t         testing.TB
	plan      plan
	seed      uint64
	cp        *e2e.ControlPlane
	client    kubernetes.Interface // of an administrator
	namespace string
	program   string
	random    *rand.Rand // of the faults of the control plane
	judge     *judge
	users     *users
	replicas  []*replica
	reading   sync.WaitGroup
	happened  e2e.Tally

	mu          sync.Mutex
	kubeconfigs map[string]string
	logs        []log // of processes that have ended
}

type log struct {
	path  string
	ended time.Time
}

// newCluster returns one in which nothing happens yet.
func newCluster(t testing.TB, p plan, seed uint64) *cluster {
	t.Helper()
	c := &cluster{
		t: t, plan: p, seed: seed, judge: newJudge(), kubeconfigs: map[string]string{},
	}
	c.random = c.randomness(0)
	c.cp = e2e.Start(t, e2e.Options{AuditPolicy: auditPolicy})
	var err error
	c.client, err = kubernetes.NewForConfig(c.cp.Admin())
	require.NoError(t, err)
	c.namespace, err = c.cp.Namespace(t.Context(), "chaos")
	require.NoError(t, err)
	c.program, err = c.cp.Program(t.Context(), "./replica", p.build...)
	require.NoError(t, err)
	c.users = &users{
		c: c, objects: c.client.CoreV1().ConfigMaps(c.namespace),
		secrets: c.client.CoreV1().Secrets(c.namespace), random: c.randomness(100),
	}
	for i := range p.replicas {
		c.replicas = append(c.replicas, c.newReplica(i))
	}
	return c
}

// randomness returns a source of random numbers for one actor.
func (c *cluster) randomness(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, stream)) }

// read has the judge read, until stop is called, which returns when everything has been read that
// was written before.
func (c *cluster) read() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	c.reading.Go(func() {
		assert.NoError(c.t, c.cp.Versions(ctx, c.namespace, []string{"configmaps", "secrets"}, c.judge.see))
	})
	c.reading.Go(func() { c.compact(ctx) })
	c.reading.Go(func() {
		forgotten := time.Now()
		for e2e.Pause(ctx, 50*time.Millisecond) {
			c.judge.digest(c.cp)
			if time.Since(forgotten) > 10*time.Second {
				c.judge.forget()
				c.retireLogs(5 * time.Minute)
				forgotten = time.Now()
			}
		}
	})
	return func() {
		defer c.reading.Wait()
		defer cancel()
		marker, err := c.users.objects.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-"}}, metav1.CreateOptions{})
		require.NoError(c.t, err)
		last, err := strconv.ParseInt(marker.ResourceVersion, 10, 64)
		require.NoError(c.t, err)
		require.Eventually(c.t, func() bool { return c.judge.latest() >= last }, time.Minute, 50*time.Millisecond,
			"the versions are not read to the end")
		c.judge.digest(c.cp)
	}
}

// compact makes etcd forget versions that the judge read some time ago, until ctx ends.
func (c *cluster) compact(ctx context.Context) {
	var read int64
	for e2e.Pause(ctx, compactEvery) {
		if read > 0 && c.cp.CompactTo(ctx, read) == nil {
			// or the next time: etcd may be down, or the API server have been faster
			c.happened.Count("etcd compacted")
		}
		read = c.judge.latest()
	}
}

// kubeconfig returns the kubeconfig of a user behind a proxy.
func (c *cluster) kubeconfig(proxy *e2e.Proxy, user string, groups ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	path, ok := c.kubeconfigs[user]
	if !ok {
		var err error
		path, err = c.cp.Kubeconfig(proxy.Config(c.cp.User(user, append(groups, "system:masters")...)))
		assert.NoError(c.t, err)
		c.kubeconfigs[user] = path
	}
	return path
}

// retire has a log removed later, when it is no longer needed.
func (c *cluster) retire(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs = append(c.logs, log{path, time.Now()})
}

// retireLogs removes old logs, unless something has gone wrong.
func (c *cluster) retireLogs(age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs = slices.DeleteFunc(c.logs, func(l log) bool {
		if c.breached() || time.Since(l.ended) < age {
			return false
		}
		_ = os.Remove(l.path)
		return true
	})
}

// saidOf returns the lines about an object in the existing logs of replicas.
func (c *cluster) saidOf(object string) string {
	var said strings.Builder
	paths, err := filepath.Glob(filepath.Join(c.cp.Dir, "s*-*-*.log"))
	assert.NoError(c.t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		assert.NoError(c.t, err)
		for line := range strings.Lines(string(text)) {
			if object != "" && strings.Contains(line, object) {
				fmt.Fprintf(&said, "    %s: %s", filepath.Base(path), line)
			}
		}
	}
	return said.String()
}

// breached says whether a referee has seen a violation.
func (c *cluster) breached() bool {
	select {
	case <-c.judge.breach:
		return true
	default:
		return c.t.Failed()
	}
}

// alive returns the shards that run.
func (c *cluster) alive() map[string]bool {
	alive := map[string]bool{}
	for _, r := range c.replicas {
		if name := r.shard(); name != "" {
			alive[name] = true
		}
	}
	return alive
}

// keep has all replicas running, without faults, until stop is called.
func (c *cluster) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var keeping sync.WaitGroup
	for _, r := range c.replicas {
		keeping.Go(func() { r.Keep(ctx) })
	}
	return func() {
		cancel()
		keeping.Wait()
	}
}

// torment has everything go wrong for a while, or until a referee sees a violation, and heals it
// then.
func (c *cluster) torment(lasts time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), lasts)
	defer cancel()
	go func() {
		select {
		case <-c.judge.breach:
			cancel()
		case <-ctx.Done():
		}
	}()
	var all sync.WaitGroup
	shared := e2e.NewDeck(c.randomness(200), c.plan.faults)
	for _, r := range c.replicas {
		all.Go(func() { r.Suffer(ctx, c.plan.rest, shared) })
	}
	if c.plan.serverRest > 0 {
		all.Go(func() { c.cp.Suffer(ctx, c.t, c.random, c.plan.serverRest, &c.happened) })
	}
	const hands = 4
	for i := range hands {
		all.Go(func() { c.users.carryOn(ctx, c.randomness(uint64(300+i)), max(1, c.plan.rate/hands)) })
	}
	all.Go(func() { c.users.meddle(ctx, c.randomness(400), max(1, c.plan.rate/4)) })
	all.Go(func() { c.users.weigh(ctx, c.randomness(500), c.plan.rest) })
	all.Go(func() { c.users.collect(ctx) })
	all.Wait()
}

// report returns the counted events.
func (c *cluster) report() string {
	return c.happened.String() + "\n" + c.judge.report()
}
