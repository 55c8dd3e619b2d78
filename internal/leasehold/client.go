package leasehold

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// ClientConfig returns a copy of config for clients that renew, with a connection of their own and
// without a rate limit.
func ClientConfig(config *rest.Config) *rest.Config {
	c := kube.ClientConfig(config)
	c.DisableCompression = true // no answer is so long that it would be compressed: the header is of no use
	c.Wrap(observe)
	c.Wrap(kube.ShareWatches)
	return c
}

// unwaitingKey is the key of how long an answer may ask to wait.
type unwaitingKey struct{}

// unwaiting returns a context for the requests of a holder. If an answer asks to wait for longest
// or more (Retry-After), the request fails at once, because a term would otherwise end with one or
// two attempts, although the API server may have recovered. The holder has pauses of its own.
func unwaiting(ctx context.Context, longest time.Duration) context.Context {
	return context.WithValue(ctx, unwaitingKey{}, longest)
}

// answers has the status of the last answer to a request of a [Store]. client-go repeats a request
// by itself if an answer asks for that (429 and 5xx with Retry-After), with a wait in between. If
// the request's time is over then, its error does not mention the answers.
type answers struct {
	code    atomic.Int32  // the last, or zero
	longest time.Duration // that an answer may ask to wait; any if zero
}

// answersKey is the key of the *answers in the context of a request.
type answersKey struct{}

// observed returns a context for one request.
func observed(ctx context.Context) (context.Context, *answers) {
	a := &answers{}
	a.longest, _ = ctx.Value(unwaitingKey{}).(time.Duration)
	return context.WithValue(ctx, answersKey{}, a), a
}

// explain returns why a request has failed when its time is over.
func (a *answers) explain(cause error) error {
	if code := int(a.code.Load()); code != 0 {
		return &throttledError{code, cause}
	}
	return cause
}

// throttledError is returned for a request that the API server asked to repeat later until its time
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
// [ClientConfig], throttling cannot be distinguished from silence.
type observer struct{ base http.RoundTripper }

var _ utilnet.RoundTripperWrapper = observer{}

func observe(base http.RoundTripper) http.RoundTripper { return observer{base} }

func (o observer) WrappedRoundTripper() http.RoundTripper { return o.base }

func (o observer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.base.RoundTrip(r)
	if a, ok := r.Context().Value(answersKey{}).(*answers); ok && err == nil {
		a.code.Store(int32(resp.StatusCode))
		seconds, noNumber := strconv.Atoi(resp.Header.Get(retryAfter))
		if noNumber == nil && a.longest > 0 && time.Duration(seconds)*time.Second >= a.longest {
			resp.Header.Del(retryAfter) // client-go would wait
		}
	}
	return resp, err
}

const retryAfter = "Retry-After"
