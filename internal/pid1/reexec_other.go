//go:build !linux

package pid1

// Reexec does nothing: pid namespaces are Linux'.
func Reexec() {}
