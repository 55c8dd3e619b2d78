// Package run tests the command bellwether run with real processes on a real control plane.
package run
