// Package subprocess runs the test binary again as a program that tests may kill, stop, or make PID
// 1 of a pid namespace, on Linux only.
package subprocess
