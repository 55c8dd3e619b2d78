package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"
)

// Proof says whether an effect is still allowed: nil means yes. It is asked just before each
// request that takes something away from the node, and again for the next one, so it may answer
// from memory what it found out within the last second, and no older. After an error nothing more
// is done, and the error is returned, wrapped, with ErrNotProved.
//
// What it has to prove is its caller's business: for a release that every feed of the machine reads
// off and that the node is not Ready, for an eviction that the condition that asked for it still
// holds.
type Proof func(ctx context.Context) error

// ErrNotProved says that a Proof failed, so that nothing was done any more. The error of the Proof
// is wrapped too.
var ErrNotProved = errors.New("cluster: not proved")

var (
	errNoProof = errors.New("cluster: prove: required (got nil)")
	errStale   = errors.New("cluster: the request was not sent within the second for which its proof is good")
	errLater   = errors.New("cluster: the API server says that it is too early")
	errNoReply = errors.New("cluster: the API server does not answer")
)

const (
	// proofLasts is how long after a proof the request that it allows may begin. What holds
	// requests back (the client's rate limit, a server that says "later", a process that was
	// stopped) must not carry one over to a time when the machine may have been switched on again.
	proofLasts = time.Second
	// answerLasts is how long the rest of an answer may take when it has begun. It is shorter than
	// the shortest time after which a client repeats a request that the server was too busy for.
	answerLasts = time.Second / 2
	// requestTimeout is how long a request may take.
	requestTimeout = 10 * time.Second
)

// act sends a request that needs proof. It may have been carried out even if there is an error.
func act(ctx context.Context, prove Proof, request func(ctx context.Context) error) error {
	if prove == nil {
		return errNoProof
	}
	if err := prove(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotProved, err)
	}
	ctx, stop := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stale := time.AfterFunc(proofLasts, func() { cancel(errStale) })
	defer stale.Stop()
	later := time.AfterFunc(2*requestTimeout, func() { cancel(errLater) })
	defer later.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { stale.Stop() },
		// It is answered. If the client does not return now, it means to send the request once
		// more, some time.
		GotFirstResponseByte: func() { later.Reset(answerLasts) },
	})
	return explain(ctx, request(ctx))
}

// ask sends a request that needs no proof.
func ask(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
	defer cancel()
	return explain(ctx, request(ctx))
}

// explain says why a request's context has ended.
func explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
