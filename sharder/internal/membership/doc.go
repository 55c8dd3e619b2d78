// Package membership decides among which shards the objects of a ring are distributed.
//
// [Shards] shows the state of the ring's shards, by their Leases. [Planner] makes a [Plan] for each
// membership, once the stored history of the ring contains it. [Collector] takes the Leases of dead
// shards, and deletes them later.
package membership

import (
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Config is what all parts of this package need to know of a ring.
type Config struct {
	Kube            kubernetes.Interface
	Namespace, Ring string
	// LeaseDuration (D) is that of the shards' Leases.
	LeaseDuration time.Duration
	// Balance is the factor of the objects that a shard may have beyond its share; zero means any.
	Balance float64
	Clock   clock.Clock
	Log     *zap.Logger
}

const (
	minPause = 100 * time.Millisecond
	maxPause = 15 * time.Second
)
