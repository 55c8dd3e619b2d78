package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/process"

// ReexecIfPID1 moves the program to another process if this one is PID 1 of a pid namespace, as the first process of a
// container is. Otherwise, and on systems other than Linux, it returns at once. Call it first in main:
//
//	func main() {
//		leaderelection.ReexecIfPID1()
//		...
//	}
//
// The kernel spares PID 1 signals that kill any other process, among them the one that a deadline of the kernel sends. A
// Pod with shareProcessNamespace: true, or an image whose entry point is an init such as tini, does not need this.
//
// As PID 1 it starts the same program again as a child (/proc/self/exe, with the same arguments, environment, standard
// input and outputs) and does not return. It forwards signals, waits for orphaned processes so that they leave no zombies,
// and ends when the child ends: with its exit code, or with 128 plus the number of the signal that ended it, so 137
// for SIGKILL. If it is killed itself, the kernel kills the child. If it cannot start the child, it says so on
// stderr and exits with 126.
//
// What to expect:
//
//   - Two processes in the container, of which the first does nothing and costs some 4 MB of memory. The kernel's short
//     name of the second one, as ps and its log show it, is "exe".
//   - Code that runs before main, that is the initialization of packages, runs in both.
//   - Other file descriptors than the standard ones are not passed on.
//   - Before main and in the child before it handles signals, a SIGTERM ends the program by default.
//   - SIGSTOP cannot be forwarded: sent to PID 1 it does not stop the child. Ctrl-Z on the container's terminal does,
//     until somebody sends SIGCONT.
func ReexecIfPID1() { process.ReexecIfPID1() }
