//go:build !linux

package doomed

// Process is for Linux only, as the kernel's deadline is.
func Process(int) bool { return true }
