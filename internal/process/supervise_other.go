//go:build !linux

package process

// ReexecIfPID1 does nothing: only Linux has pid namespaces.
func ReexecIfPID1() {}

// Children returns nothing: on this system no process is supervised.
func Children(int) []int { return nil }
