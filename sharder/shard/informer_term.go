package shard

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// joinInterval is the pause before another try to catch up with a term, after an error that lasts.
const joinInterval = 10 * time.Second

// relistAfter is how long a cache may take to catch up with a term before its informer lists again,
// because its watch may hang.
const relistAfter = 30 * time.Second

// began returns the latest term in which the cache counts, or nil: it shows all that was stored
// when that term began, or more.
func (i *informer) began() *shardlease.Term {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.term
}

// count makes the cache count in a term.
func (i *informer) count(term *shardlease.Term) {
	i.mu.Lock()
	i.term = term
	close(i.joined)
	i.joined = make(chan struct{})
	i.mu.Unlock()
	if i.child {
		return
	}
	for _, at := range i.shard.tracker.unfinished(i.resource) { // of an earlier term
		i.queue.Add(at)
	}
}

// follow makes the cache count in each term that begins after its first list.
func (i *informer) follow(ctx context.Context) {
	select {
	case <-i.first:
	case <-ctx.Done():
		return
	}
	for term := i.began(); ; {
		next, err := i.shard.lease.NextTerm(ctx, term)
		if err != nil {
			return
		}
		term = next
		i.join(ctx, term)
	}
}

// join makes the cache count in a term as soon as it shows what was stored when the term had begun,
// and then handles what has happened to its objects between the terms.
func (i *informer) join(ctx context.Context, term *shardlease.Term) {
	ctx, scope := term.Scope(ctx)
	defer scope.End()
	own := fresh.Cache{
		Resource: i.resource.GroupResource(), Informer: i.SharedIndexInformer, Source: i.source,
		RelistAfter: relistAfter,
	}
	for {
		err := fresh.WaitLatest(ctx, own)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		i.shard.config.Logger.Warn("a cache cannot catch up with the term of the shard lease, retrying",
			zap.Error(err))
		if !clock.Sleep(ctx, joinInterval) {
			return
		}
	}
	i.count(term)
	if i.child {
		return
	}
	for _, item := range i.GetStore().List() {
		i.consider(item)
	}
}

// await waits until the cache counts in the term of ctx, which is that of a work function.
func (i *informer) await(ctx context.Context) {
	term, ok := shardlease.TermFrom(ctx)
	for ok {
		i.mu.Lock()
		counts, joined := i.term == term, i.joined
		i.mu.Unlock()
		if counts {
			return
		}
		select {
		case <-joined:
		case <-ctx.Done():
			return
		}
	}
}

// inTerm returns a context for requests of the term in which the cache counts. end ends it. The
// term is nil if it is over.
func (i *informer) inTerm(ctx context.Context) (_ context.Context, term *shardlease.Term, end func()) {
	term = i.began()
	if term == nil || term.Err() != nil {
		return ctx, nil, func() {}
	}
	ctx, scope := term.Scope(ctx)
	return ctx, term, scope.End
}
