package leaderforlife

import "context"

// BecomeIn is Become in a simulated process. For other processes of its Pod it ends when end is
// called.
func BecomeIn(ctx context.Context, lockName string, options ...Option) (end func(), err error) {
	end, err = elect(ctx, lockName, options)
	return end, named(lockName, err)
}

// WithProcessLock replaces process.Lock, for simulated processes.
func WithProcessLock(f func(name string) (release func(), err error)) Option {
	return func(c *config) { c.processLock = f }
}
