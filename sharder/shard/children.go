package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// rootOf returns the role and the address of a child's root, or why it has no root.
func (s *Shard) rootOf(child schema.GroupVersionResource, o metav1.Object) (protocol.Role, protocol.Address, error) {
	p, n := protocol.RootRefOf(o, func(kind schema.GroupKind) bool { _, ok := s.parent(kind, child); return ok })
	switch n {
	case 0:
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"no controller owner reference says whose child it is, nor is it owned by an object that has such Children")
	case 1:
	default:
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"it has %d owners that have such Children, and no owner reference of it has controller: true", n)
	}
	root, ok := s.parent(p.Kind, child)
	if !ok {
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"it is controlled by a %s, of whose resource %s are not among the Children", p.Kind, child.GroupResource(),
		)
	}
	at := protocol.Address{Resource: root.Resource, Name: p.Name, UID: p.UID}
	if root.Namespaced {
		at.Namespace = o.GetNamespace()
	}
	return root, at, nil
}

// parent returns the role of a kind of roots that have children of this resource.
func (s *Shard) parent(kind schema.GroupKind, child schema.GroupVersionResource) (protocol.Role, bool) {
	root, ok := s.kinds.of(kind)
	return root, ok && slices.Contains(root.ChildResources, child)
}

// Stamp sets this shard's label on a child that work on its root is about to create, so that the
// shard's caches show the child from the beginning, and the sharder has nothing to do. An unstamped
// child becomes visible to the shard only when the sharder has patched it. Until then, work that
// looks for its children in a cache must not take the child for missing.
//
// Set the child's controller owner reference first (SetControllerReference in controller-runtime):
// it names the root that the child follows. Without a controller, the child follows its only owner
// that has such Children. Stamp returns an error if there are several, if the owner's kind is not
// in [Config].Resources, or if its Children do not include the child's resource. Call Stamp after
// everything else that sets labels of the child, and for each server-side apply, because one that
// lacks the stamp removes it if the same field manager has applied it before.
func (s *Shard) Stamp(child Object) error {
	k, err := s.roleOf(child)
	if err != nil {
		return err
	}
	if !k.Child {
		return fmt.Errorf(
			"shard: stamp %s: they are not children of anything in Config.Resources",
			protocol.AddressOf(k.Resource, child),
		)
	}
	_, root, err := s.rootOf(k.Resource, child)
	if err != nil {
		return fmt.Errorf("shard: stamp %s: %w", protocol.AddressOf(k.Resource, child), err)
	}
	if metav1.GetControllerOfNoCopy(child) == nil {
		s.warnOnce(protocol.Uncontrolled, k.Resource.GroupResource(),
			zap.Stringer("object", protocol.AddressOf(k.Resource, child)), zap.Stringer("owner", root))
	}
	labels := child.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[s.keys.Shard] = s.lease.Identity()
	child.SetLabels(labels)
	return nil
}

const (
	// misplacedInterval is how often a shard looks in its caches for children whose root is not its
	// own. No event shows this, because versions of a child and of its root cannot be compared, and
	// either may change last.
	misplacedInterval = 10 * time.Second
	// maxSuspects bounds the requests of one pass over a cache, one per suspected child.
	maxSuspects = 100
	// recheckAfter is how long an answer is valid.
	recheckAfter = time.Minute
)

// suspicion is about a child that may carry this shard's label by mistake.
type suspicion struct {
	root  protocol.Address // that the child has now
	due   time.Time
	since time.Time // when work on it was found that must end; zero if none was
	said  bool      // a failed request was logged
}

// returnMisplaced returns misplaced children of a cache to the sharder until ctx has ended. A child
// is suspected if two passes in a row find it, and it is not merely moving with its root. Its root
// is then read from the API server.
func (i *informer) returnMisplaced(ctx context.Context) {
	suspects := map[protocol.Address]suspicion{}
	for clock.Sleep(ctx, misplacedInterval) {
		ctx, term, end := i.inTerm(ctx)
		if term != nil && i.HasSynced() {
			suspects = i.returnSuspects(ctx, term, suspects)
		}
		end()
	}
}

// returnSuspects makes one pass over the cache. It returns the children that it suspects now.
func (i *informer) returnSuspects(
	ctx context.Context, term *shardlease.Term, before map[protocol.Address]suspicion,
) map[protocol.Address]suspicion {
	now, asked, suspects := time.Now(), 0, map[protocol.Address]suspicion{}
	for _, item := range i.GetStore().List() {
		o, ok := item.(metav1.Object)
		if !ok {
			continue
		}
		_, root, err := i.shard.rootOf(i.resource, o)
		if err != nil || i.shard.keys.Draining(o) || i.shard.hasClaimOn(term, root) {
			continue
		}
		at := protocol.AddressOf(i.resource, o)
		known, ok := before[at]
		if !ok || known.root != root {
			suspects[at] = suspicion{root: root, due: now}
			continue
		}
		suspects[at] = known
		if known.due.After(now) || asked == maxSuspects {
			continue
		}
		asked++
		known.due = now.Add(recheckAfter)
		err = i.shard.returnChild(ctx, at, o, root)
		if errors.Is(err, errAtWork) {
			if known.since.IsZero() {
				known.since = now
			}
			known.due = now
			if time.Since(known.since) >= i.shard.config.AckGrace {
				atWork, _ := i.shard.tracker.onChild(at)
				for _, p := range atWork {
					p.cancel(ErrDrained)
				}
			}
		} else if err != nil && ctx.Err() == nil {
			level := warning(ctx, err, known.said)
			known.said = known.said || level == zap.WarnLevel
			i.shard.config.Logger.Log(level, "a child of another shard's object could not be marked, retrying",
				zap.Error(err))
		}
		suspects[at] = known
	}
	return suspects
}

// errAtWork means that work on a child must end before the child may go to another shard.
var errAtWork = errors.New("shard: there is work on the child")

// hasClaimOn reports whether a root is this shard's as far as it knows, or is being handed over.
func (s *Shard) hasClaimOn(term *shardlease.Term, root protocol.Address) bool {
	if s.tracker.has(root) {
		return true
	}
	o := s.newest(term, root)
	if o == nil {
		return false
	}
	assignment := s.self(term, root.Resource).AssignmentOf(o)
	return assignment != protocol.AssignedElsewhere && assignment != protocol.AssignedUnrecorded
}

// returnChild sets the drain label of a child whose root is another shard's, so that the sharder
// moves it there. The child keeps its shard label: the owner of the root may be dead, and the
// sharder may have just moved the child here, with the root to follow. While there is work on the
// child, as one of its former root, returnChild returns errAtWork. No more such work begins,
// because the cache shows the new root.
func (s *Shard) returnChild(
	ctx context.Context, at protocol.Address, child metav1.Object, root protocol.Address,
) error {
	o, _, err := s.readLive(ctx, root)
	if err != nil {
		return fmt.Errorf("shard: read %s, the root of %s: %w", root, at, err)
	}
	if o == nil { // leave the child to the garbage collector
		return nil
	}
	if r, ok := s.roots[root.Resource].keys.RecordOf(o); !ok || r.State != protocol.StateOwned ||
		r.Shard == s.lease.Identity() || s.tracker.has(root) {
		return nil
	}
	atWork, ended := s.tracker.onChild(at)
	if len(atWork) > 0 || slices.ContainsFunc(ended, func(p *workItem) bool { return p.scope.Open() }) {
		return errAtWork
	}
	return s.returnObject(ctx, at, child, s.lease.Identity(), true)
}
