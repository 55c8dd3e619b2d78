// Package subprocess runs the test binary again as a program that may be killed, stopped, or PID 1 of a pid namespace, for
// tests of what ends a process. On Linux only.
package subprocess
