package endpoints

import "time"

// Hooks are functions that a [Reconciler] calls when something happens, for metrics and tests; each
// may be nil. They are called synchronously, one after the other, and have to return quickly:
// heartbeats wait for them, and so does the end of Run. A method of the Reconciler that a hook
// calls returns [ErrBusy].
type Hooks struct {
	// OnRound is told of each round, when it is over.
	OnRound func(Round)
	// OnPublished is told what is published after this instance has changed that, sorted.
	OnPublished func([]Endpoint)
	// OnExpired is told of an entry that this instance has removed, because it was not refreshed.
	OnExpired func(Status)
	// OnMalformed is told once of each entry, and each version of it, that no instance can have written. It is left as it is.
	OnMalformed func(Status)
	// OnExpireAfter is told when the run-time setting has changed how long others are waited for.
	OnExpireAfter func(time.Duration)
}

// Round is one round of a [Reconciler].
type Round struct {
	// Entries are what the store held at the end, sorted by key. Nil: it could not be read.
	Entries []Status
	// Heartbeats and Publications (changes of what is published) are how many write requests were carried out.
	Heartbeats, Publications int
	// Removals is how many entries it has removed, expired ones and its own.
	Removals int
	// Took is how long it took.
	Took time.Duration
	// Err is why it did not do all that it should have. All else it has done.
	Err error
}

// Status of an entry in the store.
type Status struct {
	// Key names it in the store.
	Key string
	// Own says that it is this instance's.
	Own bool
	// Endpoints of the instance. Nil: it is malformed.
	Endpoints []Endpoint
	// Unchanged is for how long this instance has seen it without a heartbeat.
	Unchanged time.Duration
	// Problem is why it is malformed; nil if it is not.
	Problem error
}
