package sharder

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteThatIsUnderWayAtTheEndIsFinished(t *testing.T) {
	for name, c := range map[string]struct{ answer, took time.Duration }{
		"answered soon": {answer: 1500 * time.Millisecond, took: 1500 * time.Millisecond},
		"not answered":  {answer: time.Hour, took: time.Second + endGrace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, end)
				begin := time.Now()
				_, err := finished(ctx, requestTimeout, func(ctx context.Context) (struct{}, error) {
					select {
					case <-time.After(c.answer):
						return struct{}{}, nil
					case <-ctx.Done():
						return struct{}{}, ctx.Err()
					}
				})
				assert.Equal(t, c.took, time.Since(begin))
				if c.answer < time.Minute {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
			})
		})
	}
}
