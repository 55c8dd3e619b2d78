package membership

import (
	"context"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Collector takes the Leases of shards that have not renewed them for 2D, which proves the shards
// dead, and deletes the Leases of shards that have been dead for GCPeriod.
type Collector struct {
	Shards   *Shards
	Patience time.Duration // before another attempt to delete a Lease

	// Empty reports whether no object carries the label of a shard, by consistent lists of all
	// resources.
	Empty func(ctx context.Context, shard string) (bool, error)
	// Named reports whether the ring's history names a shard.
	Named func(shard string) bool

	OnStorm     func(shards []string)
	OnTaken     func(shard string)
	OnCollected func(shard string)

	storm   bool
	stormed clock.Reading // when the latest storm began
}

const (
	minKeeping = 100 * time.Millisecond // at least, between two rounds
	maxKeeping = 5 * time.Second        // at most, even after a failure
)

// Run acts when something is due, until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := c.round(ctx)
		timer := c.Shards.config.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-c.Shards.due:
		}
		timer.Stop()
		if !clock.Sleep(ctx, minKeeping) {
			return
		}
	}
}

// round does what is due, and returns when to run again if no Lease changes.
func (c *Collector) round(ctx context.Context) time.Duration {
	calm, wait := c.calm()
	for _, shard := range c.Shards.Names() {
		if ctx.Err() != nil {
			return 0
		}
		if calm && !c.take(ctx, shard) {
			wait = min(wait, maxKeeping)
		}
		if !c.collect(ctx, shard) {
			wait = min(wait, c.Patience)
		}
	}
	return wait
}

// calm reports whether Leases may be taken. If at least half of three or more shards expire
// together, a failure of the API server or the network is more likely than that of the shards, so
// one more D must pass.
func (c *Collector) calm() (calm bool, wait time.Duration) {
	log := c.Shards.config.Log
	now := c.Shards.lock()
	members := c.Shards.tracker.Members(now)
	var expired []string
	for _, name := range members {
		if s := c.Shards.tracker.State(name, now); s == shardstate.Expired || s == shardstate.Uncertain {
			expired = append(expired, name)
		}
	}
	wait, ok := c.Shards.tracker.Next(now)
	c.Shards.mu.Unlock()
	if !ok {
		wait = time.Hour
	}
	switch storm := len(members) >= 3 && 2*len(expired) >= len(members); {
	case !storm:
		c.storm = false
		return true, wait
	case !c.storm:
		c.storm, c.stormed = true, now
		log.Warn("at least half of the shards have expired together: waiting one lease duration longer before "+
			"taking their Leases",
			zap.Strings("shards", expired), zap.Duration("leaseDuration", c.Shards.config.LeaseDuration))
		c.OnStorm(expired)
	}
	// They expire together at D, and could be taken at 2D.
	left := 2*c.Shards.config.LeaseDuration - now.SinceAtLeast(c.stormed)
	if left <= 0 {
		return true, wait
	}
	return false, min(wait, left)
}

// take acquires the Lease of a shard if that is due. It returns false if it must be retried soon.
func (c *Collector) take(ctx context.Context, shard string) bool {
	log := c.Shards.config.Log
	now := c.Shards.lock()
	takeover, ok := c.Shards.tracker.Takeover(shard, now)
	c.Shards.mu.Unlock()
	if !ok {
		return true
	}
	short, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	taken, err := shardstate.TakeOver(short, c.Shards.config.Kube, takeover)
	switch {
	case err == nil:
		log.Info("took the Lease of a shard that does not renew it", zap.String("shard", shard))
		c.OnTaken(shard)
		c.Shards.see(taken, false)
		return true
	case ctx.Err() != nil:
		return true
	case apierrors.IsForbidden(err):
		log.Log(kube.LevelOf(ctx, err), "cannot take the Lease of a dead shard, whose objects stay with it",
			zap.String("shard", shard), zap.Error(err))
	default: // the shard returned, another sharder was faster, or the outcome is unknown
		log.Info("the Lease of a shard was not taken", zap.String("shard", shard), zap.Error(err))
	}
	if err := c.Shards.look(ctx, shard); err != nil && ctx.Err() == nil {
		log.Warn("request failed, retrying", zap.Error(err))
	}
	return false
}

// collect deletes the Lease of a shard that has been dead for GCPeriod and that nothing refers to.
// It returns false if it must be retried.
func (c *Collector) collect(ctx context.Context, shard string) bool {
	log := c.Shards.config.Log
	now := c.Shards.lock()
	deletion, ok := c.Shards.tracker.Deletion(shard, now)
	c.Shards.mu.Unlock()
	if !ok || c.Named(shard) {
		return true
	}
	switch empty, err := c.Empty(ctx, shard); {
	case err != nil:
		return false
	case !empty: // objects that are no longer selected stay with it
		return false
	}
	short, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	switch err := shardstate.Delete(short, c.Shards.config.Kube, deletion); {
	// the watch will show it
	case kube.Absent(err, coordinationv1.Resource("leases"), shard), apierrors.IsConflict(err):
		return true
	case err != nil:
		log.Log(kube.LevelOf(ctx, err), "the Lease of a dead shard was not deleted, retrying", zap.Error(err))
		return false
	}
	log.Info("deleted the Lease of a shard that has been dead for long", zap.String("shard", shard))
	c.OnCollected(shard)
	return true
}
