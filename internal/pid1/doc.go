// Package pid1 moves a program out of the place of PID 1, which the kernel treats unlike any other: signals without a
// handler are dropped, its own SIGKILL too, and it inherits the orphans of the whole namespace. The part that stays
// PID 1 does what an init must, and nothing else.
package pid1
