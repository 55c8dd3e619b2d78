package sim_test

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// toy is an elector as small as can be. It is right, except that with fromResponse its term counts
// from when a renewal was answered instead of from when it was sent.
type toy struct {
	process      *sim.Process
	leases       coordinationclient.LeaseInterface
	fromResponse bool

	record *coordinationv1.Lease // as it stands, as far as is known; nil: it has to be read
	seen   clock.Reading         // since when
	leads  bool

	mu      sync.Mutex
	renewed clock.Reading // guarded by mu: start of its own term
}

const (
	toyDuration = 10 * time.Second
	toyUsable   = 9 * time.Second
	toyInterval = 500 * time.Millisecond
)

func runToy(ctx context.Context, p *sim.Process, fromResponse bool) {
	t := &toy{
		process: p, leases: coordinationclient.NewForConfigOrDie(p.Config()).Leases("ns"),
		fromResponse: fromResponse,
	}
	for ctx.Err() == nil {
		t.step(context.WithoutCancel(ctx))
		pause := p.Clock.NewTimer(toyInterval)
		select {
		case <-pause.C():
		case <-ctx.Done():
		}
		pause.Stop()
	}
	p.Exit() // a leader's term simply expires
}

// step writes the record if it is its own, or has not changed for long enough.
func (t *toy) step(ctx context.Context) {
	ctx, cancel := clock.WithTimeout(ctx, t.process.Clock, toyUsable)
	defer cancel()
	if !t.leads || t.record == nil {
		t.read(ctx)
	}
	now := t.process.Clock.Now()
	switch mine := t.record != nil && ptr.Deref(t.record.Spec.HolderIdentity, "") == t.process.Name; {
	case t.record == nil:
		return
	case t.leads && !mine:
		t.process.Exit()
	case !mine && now.SinceAtLeast(t.seen) < toyDuration:
		return
	}
	l := t.record.DeepCopy()
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(t.process.Name), ptr.To(metav1.NewMicroTime(now.Wall))
	var err error
	if t.record, err = t.leases.Update(ctx, l, metav1.UpdateOptions{}); err != nil {
		t.record = nil
		return
	}
	answered := t.process.Clock.Now()
	if t.fromResponse {
		now = answered
	}
	t.mu.Lock()
	t.renewed = now
	t.mu.Unlock()
	if !t.leads && answered.SinceAtMost(now) < toyUsable {
		t.leads = true
		t.process.Begin("l")
		t.process.Clock.AfterFunc(0, t.expire)
	}
}

func (t *toy) read(ctx context.Context) {
	l, err := t.leases.Get(ctx, "l", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l, err = t.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}},
			metav1.CreateOptions{})
	}
	if err != nil {
		return
	}
	if t.record == nil || t.record.ResourceVersion != l.ResourceVersion {
		t.record, t.seen = l, t.process.Clock.Now()
	}
}

// expire ends the process when its term is over, and looks often whether it is.
func (t *toy) expire() {
	now := t.process.Clock.Now()
	t.mu.Lock()
	left := toyUsable - now.SinceAtMost(t.renewed)
	t.mu.Unlock()
	if left <= 0 {
		t.process.Exit()
	}
	t.process.Clock.AfterFunc(min(left, 100*time.Millisecond), t.expire)
}
