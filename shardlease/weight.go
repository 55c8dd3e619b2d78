package shardlease

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

const (
	// DefaultWeight is the weight of a shard without [Config].Weight.
	DefaultWeight = shardrecord.DefaultWeight
	// MaxWeight is the greatest weight of a shard.
	MaxWeight = shardrecord.MaxWeight
)

// WeightAnnotation on the Lease of a shard gives it another weight than [Config].Weight, a whole number
// from 0 to [MaxWeight]. A shard of weight 0 is drained: it gets no objects, and lets go of those that it
// has, one after the other, each when the work on it has ended. Until then it works on what it still
// has. Only the removal of the annotation ends this: it remains for a shard that restarts under its
// name, unless the shard was away for so long that the sharder has deleted its Lease
// (sharder.Config.GCPeriod, one hour by default).
//
//	kubectl annotate lease <shard> ring.bellwether.dev/weight=0
//
// If all shards of a ring have weight 0, all count as if they had the default weight.
const WeightAnnotation = shardrecord.WeightAnnotation

// WeightOf returns the weight of the shard of this Lease. If its [WeightAnnotation] is invalid, the
// weight is that of the shard's configuration, with an error that names the value and the rule. l may
// be nil.
func WeightOf(l *coordinationv1.Lease) (int, error) {
	weight := DefaultWeight
	if l == nil {
		return weight, nil
	}
	if value, ok := l.Annotations[shardrecord.OwnWeightAnnotation]; ok {
		if own, err := shardrecord.Weight(value); err == nil { // or the shard corrects it in its next renewal
			weight = own
		}
	}
	value, ok := l.Annotations[WeightAnnotation]
	if !ok {
		return weight, nil
	}
	given, err := shardrecord.Weight(value)
	if err != nil {
		return weight, fmt.Errorf("annotation %s: %w", WeightAnnotation, err)
	}
	return given, nil
}
