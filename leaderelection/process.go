package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/process"

// ExitCodeNotLeader is the exit code of a process that lost its leadership (EX_TEMPFAIL of
// sysexits.h). Its supervisor should restart it.
const ExitCodeNotLeader = process.ExitCode

// ReexecIfPID1 moves the program to a child process if this one is PID 1 of a pid namespace, such
// as the first process of a container. Otherwise, and on systems other than Linux, it returns at
// once. Call it first in main:
//
//	func main() {
//		leaderelection.ReexecIfPID1()
//		...
//	}
//
// The kernel does not deliver some signals to PID 1, among them the SIGKILL of a kernel deadline. A
// Pod with shareProcessNamespace: true, or an image whose entry point is an init such as tini, does
// not need ReexecIfPID1.
//
// As PID 1, it runs the same program as a child (/proc/self/exe, with the same arguments,
// environment, standard input and outputs) and does not return. It forwards signals and waits for
// orphans, so that they leave no zombies. It exits with the child's exit code, or with 128 plus the
// number of the signal that ended the child, such as 137 for SIGKILL. If it is killed, the kernel
// kills the child. If it cannot start the child, it prints the error on stderr and exits with 126.
//
// Consequences:
//
//   - The container has two processes. The first is idle and uses some 4 MB of memory, and the
//     second one's short name in the kernel, as in ps and its log, is "exe".
//   - Code that runs before main, such as package initialization, runs in both.
//   - Only the standard file descriptors are passed on.
//   - Before main, and in the child until it handles signals, a SIGTERM ends the program by
//     default.
//   - SIGSTOP cannot be forwarded: sent to PID 1, it does not stop the child. Ctrl-Z on the
//     container's terminal does, until a SIGCONT.
func ReexecIfPID1() { process.ReexecIfPID1() }
