//go:build !linux

package process

// ReexecIfPID1 does nothing: only Linux has pid namespaces.
func ReexecIfPID1() {}
