package shardlease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// The timing of all tests, which is the default.
const (
	duration = 15 * time.Second
	margin   = 3 * time.Second
	interval = 3 * time.Second
)

// cluster is an API server, and what its processes share.
type cluster struct {
	*testing.T
	server *apisim.Server
	names  sync.Map // what is occupied
}

// inCluster runs a test in a bubble.
func inCluster(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&cluster{T: t, server: apisim.NewServer()}) })
}

// shard is a lease with a record of what it did.
type shard struct {
	*shardlease.Lease
	client *apisim.Client
	cancel context.CancelFunc
	result chan error // of Run
	logs   *observer.ObservedLogs
	work   func(ctx context.Context) error // nil: works until told to stop

	mu       sync.Mutex
	held     []shardlease.Epoch
	released []shardlease.Epoch
	waited   []shardlease.HolderInfo
	lost     []error
	cause    error         // of the last work's context
	lasts    time.Duration // how long work takes to stop
}

func newShard(c *cluster, change func(*shardlease.Config)) *shard {
	c.Helper()
	s, config := makeShard(c, change)
	var err error
	s.Lease, err = shardlease.New(kubernetes.NewForConfigOrDie(s.client.Config()), config)
	require.NoError(c, err)
	return s
}

// makeShard makes a shard that has no lease yet, and its configuration.
func makeShard(c *cluster, change func(*shardlease.Config)) (*shard, shardlease.Config) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := &shard{client: c.server.Client("shard"), logs: logs, result: make(chan error, 1)}
	config := shardlease.Config{
		Namespace: "ns", Ring: "r", Identity: "a", Logger: zap.New(core),
		OnLost: func(err error) { s.note(func() { s.lost = append(s.lost, err) }) },
		Hooks: shardlease.Hooks{
			OnHeld:     func(e shardlease.Epoch) { s.note(func() { s.held = append(s.held, e) }) },
			OnReleased: func(e shardlease.Epoch) { s.note(func() { s.released = append(s.released, e) }) },
			OnWaiting:  func(w shardlease.HolderInfo) { s.note(func() { s.waited = append(s.waited, w) }) },
		},
	}
	config.SetOccupy(func(name string) (func(), error) {
		if _, taken := c.names.LoadOrStore(name, s); taken {
			return nil, errors.New("taken")
		}
		return func() { c.names.Delete(name) }, nil
	})
	if change != nil {
		change(&config)
	}
	return s, config
}

func (s *shard) note(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// start runs the shard until it is stopped or the test ends.
func (s *shard) start(c *cluster) *shard {
	c.Helper()
	s.begin(c)
	synctest.Wait()
	return s
}

func (s *shard) begin(c *cluster) {
	ctx, cancel := context.WithCancel(c.Context())
	s.cancel = cancel
	go func() { s.result <- s.Run(ctx, s.run) }()
}

func (s *shard) run(ctx context.Context) error {
	if s.work != nil {
		return s.work(ctx)
	}
	<-ctx.Done()
	var lasts time.Duration
	s.note(func() { s.cause, lasts = context.Cause(ctx), s.lasts })
	time.Sleep(lasts)
	return ctx.Err()
}

// stop ends the shard and returns what Run returned.
func (s *shard) stop() error {
	s.cancel()
	return <-s.result
}

// die is SIGKILL: nothing is released.
func (s *shard) die() {
	s.client.Sever()
	_ = s.stop()
}

// epochs are those of the terms so far.
func (s *shard) epochs() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var numbers []int64
	for _, e := range s.held {
		numbers = append(numbers, e.Number)
	}
	return numbers
}

func (s *shard) losses() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (c *cluster) leases() coordinationclient.LeaseInterface {
	return coordinationclient.NewForConfigOrDie(c.server.Client("admin").Config()).Leases("ns")
}

func (c *cluster) lease() *coordinationv1.Lease {
	c.Helper()
	l, err := c.leases().Get(c.Context(), "a", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(c, err)
	return l
}

func (c *cluster) patch(patch string) {
	c.Helper()
	_, err := c.leases().Patch(c.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(c, err)
}

func (c *cluster) remove() {
	c.Helper()
	require.NoError(c, c.leases().Delete(c.Context(), "a", metav1.DeleteOptions{}))
}

func (c *cluster) epoch() int64 {
	c.Helper()
	e, err := shardlease.EpochOf(c.lease())
	require.NoError(c, err)
	return e.Number
}

func holder(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

// within fails if something takes longer than d of virtual time.
func (c *cluster) within(d time.Duration, what func() bool) {
	c.Helper()
	for end := time.Now().Add(d); !what(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			assert.Fail(c, "not in time", "%v", d)
			return
		}
	}
}

func (c *cluster) client() kubernetes.Interface {
	return c.clientOf(c.server.Client("sharder").Config())
}

func (c *cluster) clientOf(config *rest.Config) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(config)
}
