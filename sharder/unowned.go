package sharder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// maxUnowned bounds how many objects without an owner are followed at a time. If there are more,
// they are logged for the ring as a whole.
const maxUnowned = 100

// unowned follows the objects that no living shard owns.
type unowned struct {
	mu      sync.Mutex
	objects map[protocol.Ref]*vacancy // guarded by mu
}

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
	v := u.objects[r]
	switch {
	case why == "" || v != nil && v.uid != uid:
		delete(u.objects, r)
	case v != nil:
		v.last, v.why = now, why
	case len(u.objects) < maxUnowned:
		u.objects[r] = &vacancy{uid: uid, since: now, last: now, why: why}
	}
}

// late returns the objects without an owner since before a time, each only once. It forgets those
// that were not seen since another time, because they are no longer selected.
func (u *unowned) late(before, forgotten time.Time) map[protocol.Ref]vacancy {
	u.mu.Lock()
	defer u.mu.Unlock()
	late := map[protocol.Ref]vacancy{}
	for r, v := range u.objects {
		switch {
		case v.last.Before(forgotten):
			delete(u.objects, r)
		case !v.reported && v.since.Before(before):
			v.reported = true
			late[r] = *v
		}
	}
	return late
}

// reportUnowned reports objects that no living shard owns for too long.
func (s *session) reportUnowned(ctx context.Context) {
	after := s.config.UnownedAfter
	for clock.Sleep(ctx, max(after/4, time.Second)) {
		now := time.Now()
		names := map[string][]string{} // by the reason
		for r, v := range s.unowned.late(now.Add(-after), now.Add(-max(after, 2*s.config.ScanInterval))) {
			object := s.objectRef(r)
			names[v.why] = append(names[v.why], fmt.Sprintf("%s %s/%s", object.GVR.Resource, r.Namespace, r.Name))
			if s.config.Hooks.OnUnowned != nil {
				s.config.Hooks.OnUnowned(Unowned{object, v.why, v.since})
			}
			if s.config.Events != nil {
				s.config.Events.Eventf(s.regarding(r, v.uid), nil, corev1.EventTypeWarning, "Unowned", "Assign",
					"ring %s: no living shard owns this object for %v: %s", s.config.Ring,
					now.Sub(v.since).Round(time.Second), v.why)
			}
		}
		for why, of := range names {
			slices.Sort(of)
			s.config.Logger.Warn("no living shard owns objects", zap.String("why", why), zap.Strings("objects", of),
				zap.Duration("after", after))
		}
	}
}

// regarding is a reference to an object, for Events.
func (s *session) regarding(r protocol.Ref, uid types.UID) *corev1.ObjectReference {
	of := s.graph.All[r.Resource]
	return &corev1.ObjectReference{
		APIVersion: of.GVR.GroupVersion().String(), Kind: of.Kind.Kind, Namespace: r.Namespace, Name: r.Name, UID: uid,
	}
}
