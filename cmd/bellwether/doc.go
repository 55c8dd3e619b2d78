// Command bellwether brings leader election, or sharding, to any program.
//
//	bellwether run --lease my-daemon -- /usr/bin/my-daemon --its=flags
//
// It waits until it holds the Lease and then starts the program, which needs no change. When the
// term ends, the program ends, first by SIGTERM and then by SIGKILL; only afterwards does the next
// leader start its program.
//
// With --ring instead of --lease every replica runs the program, each for its own objects:
//
//	bellwether run --ring widgets --resource widgets.v1.example.com --children deployments.v1.apps -- /manager
//
// See [A shard of a ring].
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
// A Margin passes between a SIGKILL and the release, because requests may still be under way,
// whereas a program that ends by itself has none. The deadline is a Margin before the Lease
// expires. Package leaderelection has all rules.
//
// The program runs in its own session, so the terminal's keys go to bellwether, but the program may
// still read from the terminal.
//
// The log goes to standard error. Nothing waits for its reader: unread lines are dropped from the
// thousandth on.
//
// # How the program ends
//
// Its first process gets the signal, as in a container, and passes it on if it supervises others.
// If other processes are left when the first one has ended, for example because it was a shell
// around a worker, they get the signal then and have the rest of --grace. In a pipe (worker | cat),
// those that only read from the others are left alone until the others have ended.
//
// If the program expects another signal than SIGTERM, name it: --stop-signal=SIGQUIT. A container
// inherits STOPSIGNAL from the image of its program, and its runtime stops it with that signal.
// SIGINT, SIGTERM and the signal of --stop-signal all count as a request to stop.
//
// Any other signal that can be caught, except those about faults, children and job control, is passed
// on to the program. A candidate, which has no program to pass it to, ends with 128+n, so every
// STOPSIGNAL ends each replica. Without --stop-signal no --grace applies then: what the program leaves
// behind when it has ended is killed at once. Two signals differ: a candidate ignores SIGHUP, which
// usually asks for a new configuration, and SIGWINCH is ignored if bellwether has a terminal, because
// it is then about the size of a window.
//
// SIGHUP and SIGINT stay ignored, here and in the program, if they are ignored at the start, as under
// nohup or in the background of a script. Other signals do not, because Go's runtime cannot detect it.
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
//   - before bellwether contends for the Lease, because the host may have been rebooted, or all processes
//     of an earlier bellwether killed. If it fails, bellwether exits with 75 and has written nothing;
//   - whenever the program has ended and no process of it is left, before the Lease is released. If
//     it fails, it runs once more, and the Lease is not released but expires, with exit code 75.
//
// So it often runs when there is nothing to clear, and must succeed then. After --duration it is killed
// and has failed. It may also be killed at the deadline of the term, and then runs again.
//
// If bellwether is killed, its parent runs the command, and the Lease is not released but expires,
// because with --after there is no supervisor of package supervisor. Nor may --pod-uid be set,
// because a kubelet's report proves nothing about the host.
//
// After SIGTERM, or when the program has ended, the Lease is renewed while the command runs. If the
// Lease was lost at its deadline, the command begins within a quarter of a Margin (0.75 s by
// default), or half a Margin after the deadline if bellwether was stopped, while the next leader
// starts a Margin (3 s) after the deadline. If another process takes the Lease earlier, as after a
// deletion, no such time remains.
//
// Of several bellwethers of a Lease in one network namespace, one runs the command and contends.
// The others wait until it ends, because they would clear what its program needs.
//
// # Probes
//
// With --health-address, bellwether answers a kubelet's probes. Probes of the program itself would
// fail in a candidate, which does not run it: a rollout would never end, and a liveness probe would
// kill each candidate.
//
//	/readyz   200 in a candidate; in a leader, unless the last health command has failed
//	/healthz  200, unless work continues after the end of its term
//
// An unhealthy program loses its Lease, so /healthz need not report it.
//
// # Health command
//
// The command should leave no process behind, because such a process runs until the term ends.
//
// # Environment of the program
//
//	BELLWETHER_LEASE      namespace/name of the Lease
//	BELLWETHER_LEASE_UID  the UID of the Lease
//	BELLWETHER_IDENTITY   the holder identity in the Lease
//	BELLWETHER_TERM       the number of earlier terms of this Lease (spec.leaseTransitions)
//	BELLWETHER_TOKEN      a number that grows with each term of this Lease, for fencing: the receiver of the
//	                      program's writes can refuse a lower one than it has seen
//
// # A shard of a ring
//
// With --ring, this process is a shard of package sharder, and one of the replicas is also the sharder. The
// program starts when the shard's term begins and reaches the API server through a proxy in this process
// (package sharder/proxy), which it finds by KUBECONFIG, by KUBERNETES_SERVICE_HOST and _PORT, and with
// --service-account by the directory that a kubelet mounts for Pods. Mount the Pod's own token elsewhere then, and
// name that directory by --credentials. What the program lists and watches of the resources of --resource and
// --children are this shard's objects only. What it writes to them is sent only while the object is this shard's:
// otherwise it is refused as a conflict, or with 429 if the object may be this shard's soon. All other requests pass
// while the Lease of the shard is held.
//
// --selector and --namespaces restrict the ring to some objects, and the others are no shard's. Without a cluster-wide
// right, set --namespaces.
//
// --children names what the program creates for an object, with that object as the controller. --own-election
// names the Lease of the program's own leader election, which is then one for each shard; if the program has a
// flag that turns its election off, use that. With --dry-run, the program's writes change nothing, and a deletion that
// follows when an object moves to another shard is logged. --quiet is how long an object rests before another shard
// gets it. --weight is how many objects this shard gets, compared with others (100), and kubectl bellwether ring shows
// --version beside them.
//
// /metrics at --health-address counts the requests for the ring's resources by outcome, and has the latency that
// the proxy adds and the number of this shard's objects. The program has BELLWETHER_RING and BELLWETHER_SHARD
// in its environment instead of the variables of a Lease. docs/any-controller.md has guarantees, limits and
// manifests.
//
// # Exit codes
//
//	64        a flag is wrong; nothing was written
//	69        bellwether cannot work here (a limit, /proc, an address that is in use), or the election has failed,
//	          for example because a right is missing, which the message names
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
//   - It has ended a Margin before the Lease expires, or half a Margin if bellwether is stopped
//     (TestProgramEndsBeforeTheLeaseExpires, TestStoppedBellwether).
//   - A process that cannot be killed, as on a frozen file system, keeps the Lease held as long as it
//     can be renewed. The log repeats that (TestLeaseIsHeldWhileAProcessIsLeft).
//   - The Lease is released only after the command of --after has succeeded, whatever ended the
//     term (TestAfterClearsTheHost, TestLeaseIsReleasedAfterTheCommand,
//     TestLeaseIsNotReleasedIfTheCommandFails).
//
// # Not guaranteed
//
//   - The program's requests are not guarded. One that is sent just before the end may take effect
//     within a Margin of the end, or later if the network holds it longer, so use the token or
//     write with a resourceVersion.
//   - Processes of the program under another user, or in a setuid program, are not killed with
//     bellwether by the kernel, and may not be killed by its supervisor.
//   - If bellwether and its supervisor are stopped or killed together, processes that the program has started
//     outlive it unless bellwether is the PID 1 of a container. The command of --after then runs when
//     bellwether starts again, by which time another host may lead, a LeaseDuration after the last renewal.
//   - The command of --after may take longer than the time that is left, or fail. Until it succeeds,
//     what the program left exists beside that of the next leader, and a host that hangs clears
//     nothing. Where two must never have it, fence the host.
//
// # RBAC
//
// It needs what package leaderelection lists: get, watch and update on the Lease, create on leases,
// and watch on pods if --pod-uid is set.
//
// Linux only, with the /proc of its own pid namespace. There are manifests, a Dockerfile and a virtual
// IP address in examples/run.
package main
