package sharder

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// A candidate explains to several at once, while it follows the Leases of the shards.
func TestACandidateExplainsWhileItFollows(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.replica("a")
		time.Sleep(2 * time.Second)
		s := k.replica("b").sharder
		time.Sleep(5 * time.Second)
		k.create(1, "o")
		time.Sleep(5 * time.Second)
		o := api.ObjectRef{GVR: ringtest.ConfigMaps, Namespace: "default", Name: "o-000"}
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				for range 50 {
					x, err := s.Explain(t.Context(), o)
					assert.NoError(t, err)
					assert.NotEmpty(t, x.Owner)
					time.Sleep(77 * time.Millisecond)
				}
			})
		}
		asking.Wait()
	})
}
