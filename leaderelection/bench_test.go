package leaderelection_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// BenchmarkRenew is what a renewal costs beside its request. The floor is the bare update of the
// same object by the same client.
func BenchmarkRenew(b *testing.B) {
	var floor time.Duration // per update
	b.Run("floor", func(b *testing.B) {
		client, _ := leading(b)
		leases := client.CoordinationV1().Leases("ns")
		l, err := leases.Get(b.Context(), "l", metav1.GetOptions{})
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			client.ClearActions()
			if l, err = leases.Update(b.Context(), l.DeepCopy(), metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		floor = b.Elapsed() / time.Duration(b.N)
	})
	b.Run("elector", func(b *testing.B) {
		client, elector := leading(b)
		b.ReportAllocs()
		for b.Loop() {
			client.ClearActions()
			if err := elector.Renew(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if floor > 0 { // not if -bench selected this one alone
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(floor), "x-floor")
		}
	})
}

// leading returns an elector that holds its Lease, and its client.
func leading(b *testing.B) (*client, *leaderelection.Elector) {
	b.Helper()
	client := newAPI().client()
	elector, err := leaderelection.New(client, leaderelection.Config{Namespace: "ns", Name: "l"})
	require.NoError(b, err)
	_, err = elector.TryAcquire(b.Context())
	require.NoError(b, err)
	b.Cleanup(func() { _ = elector.Release(context.Background()) })
	return client, elector
}
