package lease

// Work is what a process that has died worked on.
type Work struct {
	// Objects are digests of the objects.
	Objects []uint64
	// All reports that there were no other objects.
	All bool
}
