package sharder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// maxUnowned bounds how many objects without an owner are followed at a time. If there are more,
// they are logged for the ring as a whole.
const maxUnowned = 100

// unowned follows the objects that no living shard owns.
type unowned struct {
	objects *objects

	mu    sync.Mutex
	known map[protocol.Ref]*vacancy // guarded by mu
}

func newUnowned(o *objects) *unowned { return &unowned{objects: o, known: map[protocol.Ref]*vacancy{}} }

// vacancy is a time in which no living shard owns an object.
type vacancy struct {
	uid      types.UID
	since    time.Time // when it was seen first
	last     time.Time // when it was seen last
	why      string
	reported bool
}

// see records what is known of an object. An empty reason means that a living shard owns it, or
// that it is gone.
func (u *unowned) see(r protocol.Ref, uid types.UID, why string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	v := u.known[r]
	switch {
	case why == "" || v != nil && v.uid != uid:
		delete(u.known, r)
	case v != nil:
		v.last, v.why = now, why
	case len(u.known) < maxUnowned:
		u.known[r] = &vacancy{uid: uid, since: now, last: now, why: why}
	}
}

// late returns the objects without an owner since before a time, each only once. It forgets those
// that were not seen since another time, because they are no longer selected.
func (u *unowned) late(before, forgotten time.Time) map[protocol.Ref]vacancy {
	u.mu.Lock()
	defer u.mu.Unlock()
	late := map[protocol.Ref]vacancy{}
	for r, v := range u.known {
		switch {
		case v.last.Before(forgotten):
			delete(u.known, r)
		case !v.reported && v.since.Before(before):
			v.reported = true
			late[r] = *v
		}
	}
	return late
}

// report reports objects that no living shard owns for too long.
func (u *unowned) report(ctx context.Context) {
	c := u.objects.config
	after := c.UnownedAfter
	for clock.Sleep(ctx, max(after/4, time.Second)) {
		now := time.Now()
		names := map[string][]string{} // by the reason
		for r, v := range u.late(now.Add(-after), now.Add(-max(after, 2*c.ScanInterval))) {
			object := u.objects.ref(r)
			names[v.why] = append(names[v.why], fmt.Sprintf("%s %s/%s", object.GVR.Resource, r.Namespace, r.Name))
			c.Hooks.OnUnowned(Unowned{object, v.why, v.since})
			u.objects.warn(r, v.uid, "Unowned", "Assign", "no living shard owns this object for %v: %s",
				now.Sub(v.since).Round(time.Second), v.why)
		}
		for why, of := range names {
			slices.Sort(of)
			c.Logger.Warn("no living shard owns objects", zap.String("why", why), zap.Strings("objects", of),
				zap.Duration("after", after))
		}
	}
}
