package chaos_test

import (
	"context"
	"fmt"
	"maps"
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
	// settling is how long everything may take to be in order after the last fault.
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
	faults []fault
	// slowness is how many times longer than usual work takes.
	slowness float64
	// build is flags for the build of the replicas.
	build []string
}

// arena is a control plane, the replicas, the users and the judge.
type arena struct {
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

	mu          sync.Mutex
	kubeconfigs map[string]string
	happened    map[string]int
	logs        []log // of processes that have ended
}

type log struct {
	path  string
	ended time.Time
}

// newArena returns one in which nothing happens yet.
func newArena(t testing.TB, p plan, seed uint64) *arena {
	t.Helper()
	a := &arena{
		t: t, plan: p, seed: seed, judge: newJudge(), kubeconfigs: map[string]string{},
		happened: map[string]int{},
	}
	a.random = a.randomness(0)
	a.cp = e2e.Start(t, e2e.Options{AuditPolicy: auditPolicy})
	var err error
	a.client, err = kubernetes.NewForConfig(a.cp.Admin())
	require.NoError(t, err)
	a.namespace, err = a.cp.Namespace(t.Context(), "chaos")
	require.NoError(t, err)
	a.program, err = a.cp.Program(t.Context(), "./replica", p.build...)
	require.NoError(t, err)
	a.users = &users{
		a: a, objects: a.client.CoreV1().ConfigMaps(a.namespace),
		secrets: a.client.CoreV1().Secrets(a.namespace), random: a.randomness(100),
	}
	for i := range p.replicas {
		a.replicas = append(a.replicas, a.newReplica(i))
	}
	return a
}

// randomness returns a source of random numbers for one actor.
func (a *arena) randomness(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(a.seed, stream)) }

// read has the judge read, until stop is called, which returns when everything has been read that
// was written before.
func (a *arena) read() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.t.Context()))
	a.reading.Go(func() {
		assert.NoError(a.t, a.cp.Versions(ctx, a.namespace, []string{"configmaps", "secrets"}, a.judge.see))
	})
	a.reading.Go(func() { a.compact(ctx) })
	a.reading.Go(func() {
		forgotten := time.Now()
		for pause(ctx, 50*time.Millisecond) {
			a.judge.digest(a.cp)
			if time.Since(forgotten) > 10*time.Second {
				a.judge.forget()
				a.retireLogs(5 * time.Minute)
				forgotten = time.Now()
			}
		}
	})
	return func() {
		defer a.reading.Wait()
		defer cancel()
		marker, err := a.users.objects.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-"}}, metav1.CreateOptions{})
		require.NoError(a.t, err)
		last, err := strconv.ParseInt(marker.ResourceVersion, 10, 64)
		require.NoError(a.t, err)
		require.Eventually(a.t, func() bool { return a.judge.latest() >= last }, time.Minute, 50*time.Millisecond,
			"the versions are not read to the end")
		a.judge.digest(a.cp)
	}
}

// compact makes etcd forget versions that the judge read some time ago, until ctx ends.
func (a *arena) compact(ctx context.Context) {
	var read int64
	for pause(ctx, compactEvery) {
		if read > 0 && a.cp.CompactTo(ctx, read) == nil {
			// or the next time: etcd may be down, or the API server have been faster
			a.count("etcd compacted")
		}
		read = a.judge.latest()
	}
}

// kubeconfig returns the kubeconfig of a user behind a proxy.
func (a *arena) kubeconfig(proxy *e2e.Proxy, user string, groups ...string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	path, ok := a.kubeconfigs[user]
	if !ok {
		var err error
		path, err = a.cp.Kubeconfig(proxy.Config(a.cp.User(user, append(groups, "system:masters")...)))
		assert.NoError(a.t, err)
		a.kubeconfigs[user] = path
	}
	return path
}

// count counts an event.
func (a *arena) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.happened[what]++
}

// retire has a log removed later, when it is no longer needed.
func (a *arena) retire(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs = append(a.logs, log{path, time.Now()})
}

// retireLogs removes old logs, unless something has gone wrong.
func (a *arena) retireLogs(age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs = slices.DeleteFunc(a.logs, func(l log) bool {
		if a.breached() || time.Since(l.ended) < age {
			return false
		}
		_ = os.Remove(l.path)
		return true
	})
}

// saidOf returns the lines about an object in the existing logs of replicas.
func (a *arena) saidOf(object string) string {
	var said strings.Builder
	paths, err := filepath.Glob(filepath.Join(a.cp.Dir, "s*-*-*.log"))
	assert.NoError(a.t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		assert.NoError(a.t, err)
		for line := range strings.Lines(string(text)) {
			if object != "" && strings.Contains(line, object) {
				fmt.Fprintf(&said, "    %s: %s", filepath.Base(path), line)
			}
		}
	}
	return said.String()
}

// breached says whether a referee has seen a violation.
func (a *arena) breached() bool {
	select {
	case <-a.judge.breach:
		return true
	default:
		return a.t.Failed()
	}
}

// alive returns the shards that run.
func (a *arena) alive() map[string]bool {
	alive := map[string]bool{}
	for _, r := range a.replicas {
		if name := r.shard(); name != "" {
			alive[name] = true
		}
	}
	return alive
}

// keep has all replicas running, without faults, until stop is called.
func (a *arena) keep() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.t.Context()))
	var keeping sync.WaitGroup
	for _, r := range a.replicas {
		keeping.Go(func() { r.keep(ctx) })
	}
	return func() {
		cancel()
		keeping.Wait()
	}
}

func (a *arena) requireReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	assert.NoError(a.t, a.cp.Ready(ctx))
}

// torment has everything go wrong for a while, or until a referee sees a violation, and heals it
// then.
func (a *arena) torment(lasts time.Duration) {
	ctx, cancel := context.WithTimeout(a.t.Context(), lasts)
	defer cancel()
	go func() {
		select {
		case <-a.judge.breach:
			cancel()
		case <-ctx.Done():
		}
	}()
	var all sync.WaitGroup
	shared := newDeck(a.randomness(200), a.plan.faults)
	for _, r := range a.replicas {
		all.Go(func() { r.suffer(ctx, shared) })
	}
	if a.plan.serverRest > 0 {
		all.Go(func() { a.sufferServers(ctx) })
	}
	const hands = 4
	for i := range hands {
		all.Go(func() { a.users.carryOn(ctx, a.randomness(uint64(300+i)), max(1, a.plan.rate/hands)) })
	}
	all.Go(func() { a.users.meddle(ctx, a.randomness(400), max(1, a.plan.rate/4)) })
	all.Go(func() { a.users.collect(ctx) })
	all.Wait()
}

// report returns the counted events.
func (a *arena) report() string {
	a.mu.Lock()
	var happened []string
	for _, what := range slices.Sorted(maps.Keys(a.happened)) {
		happened = append(happened, fmt.Sprintf("  %5d %s", a.happened[what], what))
	}
	a.mu.Unlock()
	return strings.Join(happened, "\n") + "\n" + a.judge.report()
}
