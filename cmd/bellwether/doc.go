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
//	bellwether gets SIGTERM      the same signal to the program, SIGKILL after --grace; the Lease is kept until all of
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
// The program runs in a session of its own. So the terminal's keys are for bellwether, and the program
// may still read from the terminal.
//
// The log goes to standard error. Nothing waits for its reader: lines that are not read are
// dropped, from the thousandth on.
//
// # How the program ends
//
// Its first process gets the signal, as in a container. A program with a supervisor of its own passes
// it on. If other processes are left when the first one has ended, as when that was a shell around a
// worker, they get the signal then, and have the rest of --grace. In a pipe (worker | cat) those that
// only read from the others are left alone until the others have ended.
//
// Say which signal the program expects if it is not SIGTERM: --stop-signal=SIGQUIT. A container
// inherits STOPSIGNAL from the image of its program, and its runtime stops it with that signal. All
// of these are taken for it: SIGINT, SIGTERM, and that of --stop-signal.
//
// Any other signal that can be caught, but for those about faults, children, and job control, is
// passed on to the program. A candidate has no program that it could be for, and ends with 128+n. So
// every STOPSIGNAL ends each replica. Without --stop-signal there is no --grace then: what the program
// leaves behind when it has ended is killed at once. Two signals are different. SIGHUP usually asks for
// a new configuration, and a candidate ignores it. SIGWINCH is ignored if bellwether has a terminal,
// because then it is about the size of a window.
//
// SIGHUP and SIGINT stay ignored, here and in the program, if they are ignored at the start, as nohup
// and the background of a script have it. Other signals do not: the runtime of Go cannot tell.
//
// # What the program leaves on the host
//
// A virtual IP address, a mount or a route outlives the program if it was killed. --after names a
// command that clears it:
//
//	bellwether run --lease address --after 'ip address flush to 192.0.2.1/32 dev eth0' -- ...
//
// It runs
//
//   - before bellwether contends for the Lease, because the host may have been rebooted, or all
//     processes of an earlier bellwether killed. If it fails, bellwether exits with 75, and has written
//     nothing;
//   - whenever the program has ended and no process of it is left, before the Lease is released. If it
//     fails, it runs once more. The Lease is not released then, but expires, and the exit code is 75.
//
// So it often runs when there is nothing to clear, and must succeed then. It has --duration, after
// which it is killed and has failed. It may also be killed at the deadline of the term, and runs again.
//
// If bellwether is killed, its parent runs the command. The Lease is not released then, but expires:
// there is no supervisor of package supervisor with --after. Nor may --pod-uid be set, because a
// kubelet's report says nothing about the host.
//
// After SIGTERM, or when the program has ended, the Lease is renewed while the command runs. When the
// Lease was lost at its deadline, the command begins within a quarter of a Margin (0.75 s by default),
// or half a Margin after the deadline if bellwether was stopped. The next leader starts a Margin (3 s)
// after the deadline. If another process has taken the Lease before, as after a deletion, there is no
// such time.
//
// Of several bellwethers of a Lease in one network namespace, one runs the command and contends. The
// others wait for its end, because they would clear what its program needs.
//
// # Probes
//
// With --health-address, bellwether answers a kubelet. A candidate does not run the program, so probes
// of the program itself would fail: a rollout would never end, and a liveness probe would kill each
// candidate.
//
//	/readyz   200 in a candidate; in a leader, unless the last health command has failed
//	/healthz  200, unless work continues after the end of its term
//
// A program that is not healthy loses its Lease. /healthz need not report it.
//
// # Health command
//
// It should leave no process behind: what it leaves runs until the term ends.
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
//	69        bellwether cannot work here (a limit, /proc, an address that is in use), or the election has failed,
//	          for example because a right is missing: the message says which
//	75        the Lease was lost, or about to be lost, or the command of --after has failed; start it again
//	126, 127  the program cannot be executed, or was not found
//	128+n     signal n has ended the program, such as 137 for SIGKILL, or a candidate
//	other     the program's; 0 if bellwether was stopped before it led
//
// # Guaranteed
//
// In brackets: the test that fails without it, here or in internal/e2e/run.
//
//   - The program runs only while its bellwether holds the Lease, and when the next one starts, no
//     process of it is left (TestNothingSurvivesTheTerm, TestProgramDiesWithBellwether).
//   - It has ended a Margin before the Lease expires, even if bellwether is stopped, half of that
//     (TestProgramEndsBeforeTheLeaseExpires, TestStoppedBellwether).
//   - A process that cannot be killed, as on a file system that is frozen, keeps the Lease held as long
//     as it can be renewed. The log says so again and again (TestLeaseIsHeldWhileAProcessIsLeft).
//   - The Lease is released only after the command of --after has succeeded, whatever has ended the
//     term (TestAfterClearsTheHost, TestLeaseIsReleasedAfterTheCommand,
//     TestLeaseIsNotReleasedIfTheCommandFails).
//
// # Not guaranteed
//
//   - The program's requests are not guarded. One that is sent just before the end may be carried
//     out within a Margin of the end, or later if the network holds it longer. Use the token, or
//     write with a resourceVersion.
//   - Processes of the program under another user, or in a setuid program, are not killed with
//     bellwether by the kernel, and may not be killed by its supervisor.
//   - If bellwether and its supervisor are stopped or killed together, processes that the program has
//     started outlive it unless bellwether is the PID 1 of a container. The command of --after then runs
//     when bellwether starts again. Another host may lead by then, a LeaseDuration after the last
//     renewal.
//   - The command of --after may take longer than the time that is left, or fail: then what the program
//     has left is there beside that of the next leader, until it succeeds. A host that hangs clears
//     nothing. Where two must never have it, fence the host.
//
// # RBAC
//
// What package leaderelection lists: get, watch and update on the Lease, create on leases, and watch
// on pods if --pod-uid is set.
//
// Linux only, with the /proc of its own pid namespace. There are manifests, a Dockerfile and a virtual
// IP address in examples/run.
package main
