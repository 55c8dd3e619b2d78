package leasehold

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// TestWriteOutlivesItsCaller ends the context of a request half a second before its answer would
// come.
func TestWriteOutlivesItsCaller(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		answered           bool
	}{
		{"write", http.MethodPost, pods, true},
		{"connection through the API server", http.MethodGet, pods + "/p/proxy", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := &body{}
				g := newGuardian(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(time.Second):
						return answer(http.StatusCreated, late)(r)
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}, GuardConfig{})
				caller, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				ctx, s := g.scope(caller)
				begin := time.Now()
				require.ErrorIs(t, g.do(ctx, c.method, c.path), context.DeadlineExceeded)
				assert.Equal(t, time.Second/2, time.Since(begin), "the caller does not wait")
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Equal(t, c.answered, !s.Open())
				assert.Equal(t, c.answered, late.closed)
				assert.Zero(t, g.flying())
				g.term.lose(lease.ErrTaken, "")
			})
		})
	}
}

// TestAnswerEndsWithItsCaller reads an answer whose body does not come.
func TestAnswerEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(streaming, GuardConfig{})
		caller, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, g.do(caller, http.MethodPost, pods), context.Canceled)
		assert.Equal(t, time.Second, time.Since(begin))
		assert.Zero(t, g.flying())
		g.term.lose(lease.ErrTaken, "")
	})
}
