package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"
)

// Proof returns nil if an effect is still permitted. It is called just before each request that
// removes something from the node. Its knowledge may be at most a second old. After an error
// nothing more is done, and the error is returned with ErrNotProved.
//
// The caller decides what must be proved: for a release, that every feed of the machine reads off
// and the node is not Ready; for an eviction, that the condition that requires it still holds.
type Proof func(ctx context.Context) error

// ErrNotProved is matched by the error after a failed Proof, which also wraps the error of the
// Proof.
var ErrNotProved = errors.New("cluster: not proved")

var (
	errNoProof = errors.New("cluster: prove: required (got nil)")
	errStale   = errors.New("cluster: the request was not sent within the second for which its proof is good")
	errLater   = errors.New("cluster: the API server says that it is too early")
	errNoReply = errors.New("cluster: the API server does not answer")
)

const (
	// proofLasts is how long after a proof its request may begin. A rate limit of the client, an
	// answer to retry later, or a stopped process must not delay a request until the machine may be
	// on again.
	proofLasts = time.Second
	// answerLasts is how long an answer may take after its first byte. It is shorter than the
	// shortest pause before a client repeats a request because the server was busy.
	answerLasts = time.Second / 2
	// requestTimeout bounds a request.
	requestTimeout = 10 * time.Second
)

// act sends a request that needs proof. It may have taken effect even after an error.
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
		// The answer has begun. A client that does not return now will repeat the request later.
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

// explain returns why the context of a request has ended.
func explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
