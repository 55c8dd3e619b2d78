package leasehold

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// answers has the status of the last answer to a request of a [Store]. client-go repeats a request
// by itself if an answer asks for that (429 and 5xx with Retry-After), with a wait in between. If
// the request's time is over then, its error does not mention the answers.
type answers struct{ code atomic.Int32 } // the last; zero: none

// answersKey is the key of the *answers in the context of a request.
type answersKey struct{}

func observed(ctx context.Context) (context.Context, *answers) {
	a := &answers{}
	return context.WithValue(ctx, answersKey{}, a), a
}

// explain returns why a request has failed whose time is over.
func (a *answers) explain(cause error) error {
	if code := int(a.code.Load()); code != 0 {
		return &throttledError{code, cause}
	}
	return cause
}

// throttledError is returned if the API server has asked to repeat a request later until its time
// was over.
type throttledError struct {
	code  int
	cause error
}

func (e *throttledError) Error() string {
	return fmt.Sprintf("the API server answered %d %s and asked to try again later", e.code, http.StatusText(e.code))
}

func (e *throttledError) Unwrap() error { return e.cause }

// observer is a transport that notes answers. Without it, as in clients that were not made from
// [ClientConfig], throttling cannot be told from silence.
type observer struct{ base http.RoundTripper }

var _ utilnet.RoundTripperWrapper = observer{}

func observe(base http.RoundTripper) http.RoundTripper { return observer{base} }

func (o observer) WrappedRoundTripper() http.RoundTripper { return o.base }

func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.base.RoundTrip(r)
	if a, ok := r.Context().Value(answersKey{}).(*answers); ok && err == nil {
		a.code.Store(int32(resp.StatusCode))
	}
	return resp, err
}
