// Command bellwether brings leader election to any program.
//
//	bellwether run --lease my-daemon -- /usr/bin/my-daemon --its=flags
//
// It waits until it holds the Lease, and then starts the program. When the term ends, the program
// ends: first by SIGTERM, then by SIGKILL. The next leader starts its program afterwards. The
// program need not know of it.
//
// # What happens when
//
//	the term begins              the program starts, with the variables below
//	bellwether gets SIGTERM      SIGTERM to the program, SIGKILL after --grace; the Lease is kept until all of
//	or SIGINT                    its processes have ended, and then released
//	renewals fail                SIGTERM a renew interval before the deadline, SIGKILL at the deadline; exit code 75
//	another takes the Lease      SIGKILL at once; exit code 75
//	the health command fails     no renewal is sent; if it does not recover, as above
//	the program ends             what it has left behind is killed, as in a container; the Lease is released;
//	                             bellwether exits with its exit code
//	bellwether is killed         the kernel kills the program; its supervisor kills the rest and releases the
//	                             Lease a Margin later (package supervisor)
//	bellwether is stopped        the kernel kills both half a Margin after the deadline, and its supervisor the rest
//
// A Margin passes between a SIGKILL and the release, because requests may be under way then. A
// program that ends by itself has no request under way. The deadline is a Margin before the Lease
// expires. Package leaderelection has all rules.
//
// SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to the program. Signals go to its process
// group. Without a program, in a candidate, they do nothing. SIGHUP and SIGINT stay ignored, here and in
// the program, if they are ignored at the start, as nohup and the background of a script have it.
//
// The program runs in a process group of its own. On a terminal that is one in the background: it
// cannot read from the terminal. Redirect its input.
//
// The log goes to standard error. Nothing waits for its reader: lines that are not read are
// dropped, from the thousandth on.
//
// The health command should leave no process behind: what it leaves runs until the term ends.
//
// # Environment of the program
//
//	BELLWETHER_LEASE      namespace/name of the Lease
//	BELLWETHER_LEASE_UID  the UID of the Lease
//	BELLWETHER_IDENTITY   the holder identity in the Lease
//	BELLWETHER_TERM       the number of earlier terms of this Lease (spec.leaseTransitions)
//	BELLWETHER_TOKEN      a number that grows with each term of this Lease, for fencing: what the program
//	                      writes to can refuse a lower one than it has seen
//
// # Exit codes
//
//	64        a flag is wrong; nothing was written
//	69        the election has failed, for example because a right is missing: the message says which
//	75        the Lease was lost, or about to be lost; start it again
//	126, 127  the program cannot be executed, or was not found
//	128+n     signal n has ended the program, such as 137 for SIGKILL
//	other     the program's; 0 also if bellwether got SIGTERM before it led
//
// # Guaranteed
//
// In brackets: the test that fails without it, in internal/e2e/run.
//
//   - The program runs only while its bellwether holds the Lease, and when the next one starts, no
//     process of it is left (TestNothingSurvivesTheTerm, TestProgramDiesWithBellwether).
//   - It has ended a Margin before the Lease expires, even if bellwether is stopped, half of that
//     (TestProgramEndsBeforeTheLeaseExpires, TestStoppedBellwether).
//
// # Not guaranteed
//
//   - The program's requests are not guarded. One that is sent just before the end may be carried
//     out within a Margin of the end, or later if the network holds it longer. Use the token, or
//     write with a resourceVersion.
//   - Processes of the program under another user, or in a setuid program, are not killed with
//     bellwether by the kernel, and may not be killed by its supervisor.
//   - If bellwether and its supervisor are stopped or killed together, processes that the program has
//     started outlive it unless bellwether is the PID 1 of a container.
//
// # RBAC
//
// What package leaderelection lists: get, watch and update on the Lease, create on leases, and watch
// on pods if --pod-uid is set.
//
// Linux only. There are manifests and a Dockerfile in examples/run.
package main
