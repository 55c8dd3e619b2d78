// Package shardrecord has the annotations of a shard's Lease, and reads and checks its values. They
// are part of the format that versions share, and must not change.
package shardrecord

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// EpochAnnotation has the number of the shard's epoch.
	EpochAnnotation = "ring.bellwether.dev/epoch"

	// IncarnationAnnotation has the PodUID in the holder's configuration.
	IncarnationAnnotation = "ring.bellwether.dev/incarnation"

	// ReturnAnnotation has the ReturnWithin in the holder's configuration, in seconds.
	ReturnAnnotation = "ring.bellwether.dev/return-within-seconds"

	// PodAnnotation has the hostname of the Pod that has claimed the Lease.
	PodAnnotation = "ring.bellwether.dev/pod"

	// LeavingAnnotation marks a claimed Lease whose shard was asked to stop, until it has released
	// the Lease.
	LeavingAnnotation = "ring.bellwether.dev/leaving"

	// CrashAnnotation has the number of the last epoch whose process died, a colon, and the digests of
	// the objects that it worked on then, separated by commas. An asterisk stands for others.
	CrashAnnotation = "ring.bellwether.dev/crash"

	// IdleAnnotation marks a held Lease while nothing in its process works on objects.
	IdleAnnotation = "ring.bellwether.dev/idle"

	// OwnWeightAnnotation has the Weight in the holder's configuration, unless it is the default.
	OwnWeightAnnotation = "ring.bellwether.dev/own-weight"

	// WeightAnnotation has the weight that an administrator gives the shard instead.
	WeightAnnotation = "ring.bellwether.dev/weight"

	// VersionAnnotation has the Version in the holder's configuration.
	VersionAnnotation = "ring.bellwether.dev/version"
)

// The weights of shards.
const (
	DefaultWeight = 100
	MaxWeight     = 1000
)

// Weight parses the weight of a shard.
func Weight(value string) (int, error) {
	w, err := strconv.Atoi(value)
	if err != nil || w < 0 || w > MaxWeight || strconv.Itoa(w) != value {
		return 0, fmt.Errorf("must be a whole number from 0 to %d (got %q)", MaxWeight, value)
	}
	return w, nil
}

// ReturnWithin parses for how long after its release a shard is expected back. A value that no
// shard would have written counts as zero, so that the shard's objects go to others.
func ReturnWithin(value string, longest time.Duration) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 16)
	if d := time.Duration(seconds) * time.Second; err == nil && d <= longest {
		return d
	}
	return 0
}

// IdentityProblems returns the rules that the identity of a shard breaks. It is the name of a Lease
// and the value of a label.
func IdentityProblems(identity string) []string {
	problems := validation.IsDNS1123Subdomain(identity)
	if len(identity) > validation.LabelValueMaxLength {
		problems = append(problems, "must be a label value: "+validation.MaxLenError(validation.LabelValueMaxLength))
	}
	return problems
}
