package leaderelection_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

const addressAnnotation = "bellwether.dev/address" // in records of all versions

func TestAddressOfTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", func(c *leaderelection.Config) { c.Address = "10.0.0.1:8443" })
		plain := newReplica(t, a, "b", nil)
		r.start(t)
		plain.start(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, "10.0.0.1:8443", a.lease(t).Annotations[addressAnnotation], "also after renewals")
		assert.Equal(t, addressAnnotation, leaderelection.AddressAnnotation)
		for _, e := range []*replica{r, plain} {
			address, ok := e.LeaderAddress()
			assert.True(t, ok)
			assert.Equal(t, "10.0.0.1:8443", address)
		}

		r.set(&r.refuse, down) // as good as dead, so that the successor finds the annotation
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, plain.IsLeader())
		assert.NotContains(t, a.lease(t).Annotations, addressAnnotation)
		_, ok := plain.LeaderAddress()
		assert.False(t, ok)
		require.NoError(t, r.stop())
		require.NoError(t, plain.stop())
	})
}

func TestAddressIsGoneWithTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", func(c *leaderelection.Config) { c.Address = "[2001:db8::1]:80" })
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		_, ok := r.LeaderAddress()
		assert.True(t, ok)
		require.NoError(t, r.Release(t.Context()))
		assert.NotContains(t, a.lease(t).Annotations, addressAnnotation)
		_, ok = r.LeaderAddress()
		assert.False(t, ok)

		a.edit(t, func(l *coordinationv1.Lease) { l.Annotations[addressAnnotation] = "left by somebody:1" })
		other := newReplica(t, a, "b", nil)
		other.set(&other.refuse, forbid("update"))
		_, err = other.TryAcquire(t.Context())
		require.Error(t, err)
		_, ok = other.LeaderAddress()
		assert.False(t, ok, "without a leader")
	})
}
