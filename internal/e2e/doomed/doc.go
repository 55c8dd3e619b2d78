// Package doomed tells a program under test whether another process can still act.
package doomed
