// Package sole makes a process the only one of a name among those of its Pod.
package sole
