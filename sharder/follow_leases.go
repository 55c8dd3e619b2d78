package sharder

import "context"

// follow keeps up with the shards' Leases until stop is called, which waits for its end: a session that begins
// then knows for how long each Lease has stood. Only while Run is not running.
func (s *Sharder) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.newShardLeases(func() {}).run(ctx, "")
	}()
	return func() {
		cancel()
		<-ended
	}
}

// newShardLeases returns one that has decided nothing. What is known of the Leases outlives it. Only one may be in use at a time.
func (s *Sharder) newShardLeases(changed func()) *shardLeases {
	c := s.config
	return &shardLeases{
		client: s.kube.CoordinationV1().Leases(c.Namespace), namespace: c.Namespace, ring: c.Ring, clock: c.Clock, log: c.Logger,
		changed: changed, due: make(chan struct{}, 1), roster: s.roster, asked: map[string]struct{}{},
	}
}
