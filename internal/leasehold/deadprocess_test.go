package leasehold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// orphanage is a server with the lease of a process that has died.
type orphanage struct {
	server *apisim.Server
	store  *Store
	orphan lease.Orphan
	died   time.Duration
	now    func() time.Duration
}

func newOrphanage(t *testing.T) orphanage {
	t.Helper()
	begin := time.Now()
	o := orphanage{
		server: apisim.NewServer(),
		orphan: lease.Orphan{
			Claim:   lease.Claim{Process: "dead", Timing: lease.Timing{}.WithDefaults()},
			Entries: lease.Entries{Since: 10 * time.Second, Until: 82 * time.Second, Guarded: true},
		},
		died: 75 * time.Second,
		now:  func() time.Duration { return 75*time.Second + time.Since(begin) },
	}
	client := kubernetes.NewForConfigOrDie(o.server.Client("supervisor").Config())
	o.store = NewStore(client.CoordinationV1(), Config{Lease: name, Clock: clock.System(), Log: zap.NewNop()}, 0)
	l := lease.Record{}.Acquired(name, "leader", 15*time.Second, metav1.NewMicroTime(time.Now().Truncate(time.Second)))
	lease.SetProcess(l, "dead")
	_, err := client.CoordinationV1().Leases("ns").Create(t.Context(), l, metav1.CreateOptions{})
	require.NoError(t, err)
	return o
}

func (o orphanage) release(t *testing.T) error {
	t.Helper()
	return ReleaseOrphan(t.Context(), o.orphan, o.store, clock.System(), o.now, o.died)
}

func (o orphanage) record(t *testing.T) lease.Record {
	t.Helper()
	r, err := o.store.Get(t.Context(), time.Second)
	require.NoError(t, err)
	return r
}

// update writes the Lease as another process does.
func (o orphanage) update(t *testing.T, change func(*coordinationv1.Lease)) {
	t.Helper()
	l := o.record(t).Lease().DeepCopy()
	change(l)
	client := kubernetes.NewForConfigOrDie(o.server.Client("another").Config())
	_, err := client.CoordinationV1().Leases("ns").Update(context.WithoutCancel(t.Context()), l, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func TestOrphanIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrphanage(t)
		before := o.record(t)
		require.NoError(t, o.release(t))
		r := o.record(t)
		assert.True(t, r.Released())
		assert.True(t, r.Lease().Spec.RenewTime.After(before.Lease().Spec.RenewTime.Time), "a stamp of its own")
		assert.Equal(t, before.Transitions(), r.Transitions())
	})
}

// Somebody else has removed what the API does not require.
func TestOrphanWithoutARenewTimeIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrphanage(t)
		o.update(t, func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil })
		require.NoError(t, o.release(t))
		assert.True(t, o.record(t).Released())
	})
}

func TestOrphanIsNotReleased(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*orphanage)
		want   error
	}{
		{"no term was held", func(o *orphanage) { o.orphan.Until = 0 }, lease.ErrNoTerm},
		{"its term is over", func(o *orphanage) { o.orphan.Until = 75 * time.Second }, lease.ErrTooLate},
		{
			"its term is over before its requests are", func(o *orphanage) {
				o.orphan.Open, o.orphan.Until = 1, 77*time.Second
			}, lease.ErrTooLate,
		},
		{"it died soon", func(o *orphanage) { o.orphan.MinUptime = 66 * time.Second }, lease.ErrTooYoung},
		{"another process has written it", func(o *orphanage) { o.orphan.Process = "other" }, lease.ErrTaken},
		{"a record without a mark", func(o *orphanage) { o.orphan.Process = "" }, lease.ErrTaken},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrphanage(t)
				c.change(&o)
				before := o.record(t)
				assert.ErrorIs(t, o.release(t), c.want)
				assert.Equal(t, before, o.record(t))
			})
		})
	}
}

func TestReleaseOfAnOrphanWaitsForItsRequests(t *testing.T) {
	const margin = 3 * time.Second
	for _, c := range []struct {
		name    string
		entries func(*lease.Entries)
		want    time.Duration
	}{
		{"all were answered", func(*lease.Entries) {}, 0},
		{"one has no answer", func(e *lease.Entries) { e.Open = 1 }, margin},
		{"one has failed", func(e *lease.Entries) { e.OpenUntil = 76 * time.Second }, margin},
		{"one may be carried out longer", func(e *lease.Entries) { e.OpenUntil = 79 * time.Second }, 4 * time.Second},
		{"one has failed long ago", func(e *lease.Entries) { e.OpenUntil = 74 * time.Second }, 0},
		{"they were not counted", func(e *lease.Entries) { e.Guarded = false }, margin},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrphanage(t)
				c.entries(&o.orphan.Entries)
				begin := time.Now()
				require.NoError(t, o.release(t))
				assert.Equal(t, c.want, time.Since(begin))
				assert.True(t, o.record(t).Released())
			})
		})
	}
}

// What a supervisor has read may be out of date when it writes: it may have been stopped in between.
func TestOrphanIsReleasedByAConditionalWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*coordinationv1.Lease)
		want   string // the holder afterwards
	}{
		{"a successor has it", func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = ptr.To("successor")
			lease.SetProcess(l, "successor")
		}, "successor"},
		{"a renewal of the dead process has arrived", func(l *coordinationv1.Lease) {
			l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.Spec.RenewTime.Add(3 * time.Second)))
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrphanage(t)
				changed := false
				before := len(o.server.Trace())
				o.store.clock = hookedClock{clock.System(), func() {
					if !changed && len(o.server.Trace()) > before { // after the read, before the write
						changed = true
						o.update(t, c.change)
					}
				}}
				err := ReleaseOrphan(t.Context(), o.orphan, o.store, clock.System(), o.now, o.died)
				assert.True(t, changed)
				assert.Equal(t, c.want == "", err == nil, err)
				assert.Equal(t, c.want, o.record(t).Holder())
			})
		})
	}
}

// A process leaves the version that its last write has stored, so that its supervisor need not read it.
func TestOrphanIsReleasedFromWhatItsProcessHasLeft(t *testing.T) {
	const released = "" // the holder afterwards
	for _, c := range []struct {
		name    string
		change  func(*testing.T, *orphanage)
		methods []string
		want    string
	}{
		{"the version of the record", func(*testing.T, *orphanage) {}, []string{"PUT"}, released},
		{
			"an older version", func(t *testing.T, o *orphanage) {
				o.update(t, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"team": "a"} })
			}, []string{"PUT", "GET", "PUT"}, released,
		},
		{
			"a version before that of a successor", func(t *testing.T, o *orphanage) {
				o.update(t, func(l *coordinationv1.Lease) {
					l.Spec.HolderIdentity = ptr.To("successor")
					lease.SetProcess(l, "successor")
				})
			}, []string{"PUT", "GET"}, "successor",
		},
		{
			"a version of a Lease that was deleted and created again", func(t *testing.T, o *orphanage) {
				o.recreate(t)
			}, []string{"PUT", "GET"}, "successor",
		},
		{
			"a version without a UID", func(_ *testing.T, o *orphanage) {
				o.leave(func(l *coordinationv1.Lease) { l.UID = "" })
			}, []string{"GET", "PUT"}, released,
		},
		{
			"a version without a resourceVersion", func(_ *testing.T, o *orphanage) {
				o.leave(func(l *coordinationv1.Lease) { l.ResourceVersion = "" })
			}, []string{"GET", "PUT"}, released,
		},
		{
			"a version of another Lease", func(_ *testing.T, o *orphanage) {
				o.leave(func(l *coordinationv1.Lease) { l.Name = "other" })
			}, []string{"GET", "PUT"}, released,
		},
		{
			"a version of another process", func(_ *testing.T, o *orphanage) {
				o.leave(func(l *coordinationv1.Lease) { lease.SetProcess(l, "other") })
			}, []string{"GET", "PUT"}, released,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrphanage(t)
				o.orphan.Stored = o.record(t)
				c.change(t, &o)
				before := len(o.server.Trace())
				err := o.release(t)
				assert.Equal(t, c.want == released, err == nil, err)
				var methods []string
				for _, r := range o.server.TraceFrom(before) {
					methods = append(methods, r.Method)
				}
				assert.Equal(t, c.methods, methods)
				assert.Equal(t, c.want, o.record(t).Holder())
				assert.Equal(t, c.want == released, o.record(t).Released())
			})
		})
	}
}

// leave changes the version that the process has left.
func (o *orphanage) leave(change func(*coordinationv1.Lease)) {
	l := o.orphan.Stored.Lease().DeepCopy()
	change(l)
	o.orphan.Stored = lease.RecordOf(l)
}

// recreate deletes the Lease, which a successor creates then.
func (o *orphanage) recreate(t *testing.T) {
	t.Helper()
	leases := kubernetes.NewForConfigOrDie(o.server.Client("another").Config()).CoordinationV1().Leases("ns")
	require.NoError(t, leases.Delete(t.Context(), name.Name, metav1.DeleteOptions{}))
	l := lease.Record{}.Acquired(name, "successor", 15*time.Second, metav1.NewMicroTime(time.Now()))
	_, err := leases.Create(t.Context(), l, metav1.CreateOptions{})
	require.NoError(t, err)
}

// hookedClock calls a function when the time is read.
type hookedClock struct {
	clock.Clock
	hook func()
}

func (c hookedClock) Now() clock.Reading {
	c.hook()
	return c.Clock.Now()
}

func TestReleaseOfAnOrphanIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrphanage(t)
		client := o.server.Client("supervisor with a bad network")
		client.Inject(apisim.Faults{Refuse: apisim.Always})
		time.AfterFunc(2*time.Second, func() { client.Inject(apisim.Faults{}) })
		o.store = NewStore(kubernetes.NewForConfigOrDie(client.Config()).CoordinationV1(),
			Config{Lease: o.store.Name, Clock: clock.System(), Log: zap.NewNop()}, 0)
		require.NoError(t, o.release(t))
		assert.True(t, o.record(t).Released())
	})
}

// The parent ends only then, and the container is not restarted before.
func TestReleaseOfAnOrphanIsGivenUp(t *testing.T) {
	for name, until := range map[string]time.Duration{
		"long before the term is over": 85 * time.Second,
		"when the term is over":        77 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrphanage(t)
				o.orphan.Until = until
				client := o.server.Client("supervisor without a network")
				client.Inject(apisim.Faults{Refuse: apisim.Always})
				o.store = NewStore(kubernetes.NewForConfigOrDie(client.Config()).CoordinationV1(),
					Config{Lease: o.store.Name, Clock: clock.System(), Log: zap.NewNop()}, 0)
				begin := time.Now()
				err := o.release(t)
				bound := min(o.orphan.Timing.Margin+o.orphan.Timing.RenewInterval(), until-o.died)
				assert.GreaterOrEqual(t, time.Since(begin), bound)
				assert.Less(t, time.Since(begin), bound+time.Second, "and the last pause")
				assert.Regexp(t, "^get Lease ns/l: no answer within .*s$", err)
			})
		})
	}
}
