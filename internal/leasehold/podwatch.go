package leasehold

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Witness releases leases for holders that have died with their container. It watches the Pods that
// records name, each with a watch of its own, and takes the kubelet's report as proof. When the
// holder's margin has passed since the report came, it empties the record if that is still of the
// process, by one conditional write. It is for a dead container what a supervisor is for a dead
// process.
//
// Without the right to watch a Pod it does nothing. It is safe for concurrent use.
type Witness struct {
	client kubernetes.Interface
	timing lease.Timing
	clock  clock.Clock
	log    *zap.Logger
	own    string // the mark of this process, which is alive

	ctx     context.Context //nolint:containedctx // of all watches
	joined  sync.WaitGroup
	refused sync.Once // was logged
	failed  sync.Once // was logged

	mu     sync.Mutex
	closed bool                           // guarded by mu
	vigils map[types.NamespacedName]vigil // guarded by mu: nil before the first
}

// vigil is the watch for the end of one process.
type vigil struct {
	lease.PodProcess
	end context.CancelFunc
}

// NewWitness returns a witness that works until ctx ends. Call Close.
func NewWitness(ctx context.Context, client kubernetes.Interface, c Config) *Witness {
	return &Witness{client: client, timing: c.Timing, clock: c.Clock, log: c.Log, own: c.Process, ctx: ctx}
}

// Close ends all watches and waits for the goroutines.
func (w *Witness) Close() {
	w.mu.Lock()
	w.closed = true // no goroutine begins after this
	for _, v := range w.vigils {
		v.end()
	}
	w.mu.Unlock()
	w.joined.Wait()
}

// See handles a version of a lease.
func (w *Witness) See(name types.NamespacedName, r lease.Record) {
	n, ok := r.PodProcess(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	v, watching := w.vigils[name]
	if watching && v.PodProcess == n {
		return
	}
	if watching {
		v.end()
		delete(w.vigils, name)
	}
	if !ok || n.Process == w.own || w.closed || w.ctx.Err() != nil {
		return
	}
	if w.vigils == nil {
		w.vigils = map[types.NamespacedName]vigil{}
	}
	ctx, end := context.WithCancel(w.ctx)
	w.vigils[n.Lease] = vigil{n, end}
	w.joined.Go(func() { w.attend(ctx, n) })
}

// attend waits until the process has ended, and then releases its lease.
func (w *Witness) attend(ctx context.Context, n lease.PodProcess) {
	pause := backoff(w.timing)
	for {
		delay := pause.Step()
		switch ended, err := w.follow(ctx, n); {
		case ended:
			w.release(ctx, n)
			return
		case kube.RoleMissing(err):
			delay = maxWatchBackoff
			w.refused.Do(func() {
				w.log.Info("not watching the Pods of holders: the lease of a container that is killed is free when "+
					"it has expired", zap.Error(err))
			})
		case err == nil: // a watch that has lasted
			pause = backoff(w.timing)
		case ctx.Err() == nil:
			w.failed.Do(func() { w.log.Info("a watch of a holder's Pod failed, retrying", zap.Error(err)) })
		}
		if !clock.SleepBy(ctx, w.clock, delay) {
			return
		}
	}
}

// follow watches the Pod until it proves the end of the process. It returns false when the watch is
// over.
func (w *Witness) follow(ctx context.Context, n lease.PodProcess) (ended bool, err error) {
	core := w.client.CoreV1()
	pods := core.Pods(n.Lease.Namespace)
	// The present version comes first.
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, n.Pod).String()}
	open := func(ctx context.Context) (watch.Interface, error) {
		return kube.Watch(ctx, w.clock, w.timing.RenewInterval(),
			func(ctx context.Context) (watch.Interface, error) { return pods.Watch(ctx, options) })
	}
	events, err := kube.WatchesOf(core.RESTClient()).Join(own(ctx), w.clock, "pods/"+n.Lease.Namespace+"/"+n.Pod, n.Pod,
		open)
	if err != nil {
		needs := kube.Right{Verb: "watch", Resource: corev1.Resource("pods"), Namespace: n.Lease.Namespace, Name: n.Pod}
		return false, &kube.RequestError{Right: needs, Object: "Pod " + n.Lease.Namespace + "/" + n.Pod, Err: err}
	}
	defer events.Stop()
	for {
		select {
		case e, ok := <-events.ResultChan():
			if !ok || e.Type == watch.Error {
				return false, nil
			}
			if pod, ok := e.Object.(*corev1.Pod); ok && n.EndedIn(pod) {
				return true, nil
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// release empties the record after a margin. A request of the process may be under way until then.
func (w *Witness) release(ctx context.Context, n lease.PodProcess) {
	seen := w.clock.Now()
	for {
		left := n.Margin - w.clock.Now().SinceAtLeast(seen)
		if left <= 0 {
			break
		}
		if !clock.SleepBy(ctx, w.clock, min(left, checkInterval)) {
			return
		}
	}
	store := NewStore(w.client.CoordinationV1(), Config{Lease: n.Lease, Clock: w.clock, Log: w.log}, 0)
	orphan := lease.Orphan{Claim: lease.Claim{Process: n.Process, Timing: w.timing}}
	for pause := backoff(w.timing); ; {
		switch err := store.release(ctx, orphan, w.timing.Duration); {
		case err == nil:
			w.log.Info("released the lease of a container that has ended", zap.Stringer("of", n.Lease),
				zap.String("pod", n.Pod), zap.Duration("after", w.clock.Now().SinceAtLeast(seen)))
			return
		case errors.Is(err, lease.ErrTaken):
			return
		}
		if !clock.SleepBy(ctx, w.clock, pause.Step()) {
			return
		}
	}
}
