package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

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
			i.shard.endWorkOn(at, known.since)
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

// endWorkOn cancels the work on a child that has got another root, if it has continued for AckGrace
// since then.
func (s *Shard) endWorkOn(child protocol.Address, since time.Time) {
	if time.Since(since) < s.config.AckGrace {
		return
	}
	atWork, _ := s.tracker.onChild(child)
	for _, p := range atWork {
		p.cancel(ErrDrained)
	}
}

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
	if r, ok := s.marks[root.Resource].RecordOf(o); !ok || r.State != protocol.StateOwned ||
		r.Shard == s.lease.Identity() || s.tracker.has(root) {
		return nil
	}
	atWork, ended := s.tracker.onChild(at)
	if len(atWork) > 0 || slices.ContainsFunc(ended, func(p *workItem) bool { return p.scope.Open() }) {
		return errAtWork
	}
	return s.returnObject(ctx, at, child, s.lease.Identity(), true)
}
