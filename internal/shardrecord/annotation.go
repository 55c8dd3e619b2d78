// Package shardrecord has the annotations of a shard's Lease. They are part of the format that
// versions share, and must not change.
package shardrecord

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

	// DrainAnnotation is set by an administrator: the shard is to get no objects, and to let go of
	// those that it has.
	DrainAnnotation = "ring.bellwether.dev/drain"
)
