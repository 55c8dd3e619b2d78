// Package statemachine decides what a fence does next: the fence of a node that has failed, whose
// machine is to be brought to where its workloads may safely run elsewhere, without an admin and
// never while it may still run them.
//
// [Transition] is a pure function of the record ([v1alpha1.NodeFence]), the configuration ([Plan]),
// what the cluster's rules say ([Policy]), what this process has seen and done ([Memory]), and the
// time. It returns one [Step]. A controller is no more than
//
//	for {
//		step := statemachine.Transition(statemachine.Input{Fence: fence, Plan: plan, Policy: policy, Memory: memory, Now: clock.Now()})
//		// Do it: write the status, look at the node, read or command a device, delete pods, or wait.
//		memory = memory.After(&fence.Status, step, outcome)
//	}
//
// in one process at a time, under leader election. Nothing blocks: waits are steps. Everything that
// has to survive the process is in the record, and is written before it is acted on; a memory can
// be lost at any time, and only costs time.
//
// # The flow
//
// In the terms of the design that this package grew from, the steps are isolation, power-management
// and recovery; a record's step and status say how far they are, its phase says exactly where:
//
//	flowchart TD
//	    Detected["Detected: Isolation/New"] -->|NotReadyTimeout| Isolating["Isolating: Isolation/Running"]
//	    Detected -->|Returned| Recovering
//	    Isolating -->|NodeIsolated| Isolated["Isolated: Isolation/Done"]
//	    Isolating -->|IsolationFailed| Error
//	    Isolated -->|PowerWaitOver| Powering["Powering: Power-Management/Running"]
//	    Isolated -->|DumpSeen, DumpPodsReleased| Isolated
//	    Isolated -->|Returned, nothing touched| Recovering
//	    Isolated -->|AlreadyReleased| Restoring
//	    Powering -->|NextLevel| Powering
//	    Powering -->|AllOff| Verifying["Verifying: Power-Management/Running"]
//	    Powering -->|PowerFailed| Error
//	    Powering -->|Returned| Restoring
//	    Verifying -->|Verified| Releasing["Releasing: Power-Management/Running"]
//	    Verifying -->|Contradicted, WrongPlugSuspected| Restoring
//	    Releasing -->|WorkloadsFreed| Restoring["Restoring: Power-Management/Running"]
//	    Releasing -->|Contradicted, Returned| Restoring
//	    Restoring -->|PowerRestored| Booting["Booting: Power-Management/Done"]
//	    Restoring -->|Ended| GivenUp["GivenUp: any/Error, complete"]
//	    Restoring -->|NodeRemoved| Final
//	    Booting -->|NodeBack| Recovering["Recovering: Recovery/Running"]
//	    Booting -->|BootGraceOver| Error["Error: any/Error"]
//	    Recovering -->|Recovered| Final["Final: Recovery/Final, complete"]
//	    Recovering -->|LostAgain| Booting
//	    Recovering -->|RecoveryFailed| Error
//	    Error -->|FlowRestarted| Detected
//	    Error -->|Returned, RestartsUsedUp| Restoring
//	    GivenUp -->|NodeBack| Recovering
//	    Detected -->|IncidentReopened| Detected
//	    GivenUp -->|IncidentReopened| Detected
//	    GivenUp -->|Worked, OnSeen| GivenUp
//	    Final -->|IncidentReopened| Detected
//
// A commission is not a fence, and shares the way back with them:
//
//	flowchart TD
//	    Commissioning["Commissioning: Power-Management/Running"] -->|NodeWentDown, CommissionFailed, WrongPlugSuspected, Contradicted| Restoring
//	    Commissioning -->|CommissionFailed, nothing touched| Final
//	    Recovering -->|NextLevel| Commissioning
//	    Recovering -->|Commissioned, CommissionFailed| Final
//	    Booting -->|BootGraceOver| GivenUp
//
// It begins with CommissionBegun, in the place of Begun or IncidentReopened, for a node that works,
// is cordoned, and whose record has the annotation for that. Each device is told to switch off
// once; whatever then is not as it should be ends it, and power comes back. It never enters the
// phases of a fence: nothing is released, and its node is not fenced for what was done to it.
//
// From every phase but the ends Stopped leads to Restoring; from every one before Releasing, and
// from Error and GivenUp, Confirmed leads to Releasing; and NodeGone leads to Restoring, where
// nothing is switched on any more. The names are those of [Reason].
//
// # One device
//
// A device is read before it is commanded. Those of the first level are read in the last 5 s of the
// wait before the power may be taken, so that nobody waits for that when it is over. Such a reading
// proves nothing, and is at most 10 s old when the command is written down, or is taken again.
//
// A device that cannot be read is not commanded where another level of devices can take its place.
// Otherwise a command is written into the record (OffIntent) before it is sent, with an ID that
// follows from the node, the incident and a count. The node is looked at between the two, and the
// command begins within 2 s of that look. Whether it was carried out is read from the device, never
// from the command's own answer. Read off, twice: it is (OffSeen), and it is never switched off
// again in this incident. Read on, or not to be read: where another level of devices can take its
// place that one is used at once; otherwise, and before any other command to the same device, the
// time is waited for that the device may take to carry a command out (settling), and it is read
// once more. Still on: the command is spent (OffSpent), another may be sent. Still unreadable: it
// counts as a try, and no command is sent.
//
// A process that finds a command in the record that it did not write does not know whether it was
// sent. It waits for as long as the call could take and for the device to settle, from its own
// start.
//
// # The release
//
// All feeds of a level were read off in one go, twice, and after that the node was looked at and is
// not Ready: the machine is without power (Verified). Before each part of the release both are done
// again, and neither may be older than 1 s when something is taken from the node. First the pods
// are listed and deleted by UID, until none is left. A quarter of a second later a taint that makes
// volumes come loose (node.kubernetes.io/out-of-service) is put on the node, also where nothing
// seems to be attached. It stays until the volumes have come loose, and is gone before the machine
// is switched on: Kubernetes takes volumes from a node with this taint also while it works. The
// machine is switched on only then. There is no reboot command, which would be both at once.
//
// The taint never comes before the pods are gone. Because of it Kubernetes deletes the pods that it
// believes to be on the node, by their names; a pod of a StatefulSet that was deleted a moment ago
// has a successor of that name by then, on a node that works, and that would be deleted. Nor would
// volumes come loose any sooner. So a process that did not see the pods gone itself, because the
// one before it has crashed, lists and deletes them anew first.
//
// Devices of the isolation step may cut a node off from storage. Once they read off, the pods that
// use that storage are released; such a device is switched on again only for a machine that was
// without power, or has another boot ID, since: its programs may still hold what they were about to
// write.
//
// A kernel that says that it writes a dump has stopped, and with it all that ran. Where the plan
// heeds that, the pods of the node are released (DumpSeen, DumpPodsReleased) while it is isolated,
// each within 5 s of a message that came after the incident began, and not once the node is shown
// Ready or has another boot ID. The machine has its power still, and starts anew by itself when the
// dump is written: so its volumes are not touched, and nothing else is proved. The first command to
// take its power waits until 30 s after the last message, or for KdumpTimeout.
//
// # Where this goes beyond the design it grew from
//
//   - Not Ready after power-management is an error only after a grace for the boot; each boot would
//     be an error otherwise.
//   - A restart after an error keeps what is known: what was off is not switched off again, what
//     was released is not released again.
//   - "Ready" counts once the node's Lease was renewed between two looks after the last command:
//     the condition of a machine that has just lost its power says Ready for most of a minute.
//     Another boot ID does not count: it may be of before.
//   - The workloads of a node that is shown Ready are not released, also where another condition
//     takes its power: it will not be shown Ready for long, unless the devices are another
//     machine's.
//   - The node is kept from the scheduler by a taint of the fence's own, because spec.unschedulable
//     is the admin's, and cannot have two owners.
//   - Whatever ends a fence, the record says which plugs it leaves off, and a stop is acknowledged
//     (the condition Stopped) when no command can land any more.
//   - No command goes to a device before the one before it has settled, also where it reads as
//     commanded: it may have read so before.
//   - A device to which a command to switch on was sent is not switched off any more in the
//     incident: where it could not be read in between, nobody knows whether it was off.
//   - A configuration that cannot be had, or is another than the one with which commands were sent,
//     stops a fence where it is, and the record says so; it does not leave devices off.
//   - An admin's confirmation is taken in every phase before the release, and refused once the flow
//     is past it, so that an old one cannot count after the machine was switched on.
//
// # What is guaranteed
//
//   - Workloads are released only while the machine is without power, or an admin said so; pods
//     also while a kernel writes a dump.
//   - A device takes a machine's power at most once in an incident; it is commanded again only if
//     it read on when nothing could be under way.
//   - A node that is Ready, gone, or another machine by now does not lose its power; but for a
//     commission, which takes that of one that is Ready, cordoned, and was not started anew since
//     an admin has asked for it.
//   - Nothing is switched off after a stop was acknowledged, or after the end of a fence.
//   - Power comes back only after the release, or where there will be none.
//   - An admin's cordon and an out-of-service taint of somebody else are left alone.
//   - A fence that was given up does not keep its node from being fenced for something else:
//     another Node of its name, one that has worked since, one that nobody is about to remove any
//     more, or that is not excluded any more.
//   - There is no dead end, and no endless loop in which something is written or commanded. A node
//     that is dead, with devices that work, has its workloads released, however often the
//     controller is restarted.
//
// The package's tests explore these exhaustively, within budgets (small ones in a minute; large
// ones, ninety million states, with make soak): they drive this code through crashes after every
// write and side effect, commands that are lost or land late, stale records, devices that fail, lie
// and cannot be read, nodes that return and vanish, and admins. Each safeguard is taken away there
// once, and is missed.
//
// # What is assumed
//
//   - A command lands within the settling time of its device, or never. One that lands later can
//     take the power of a machine that was restored.
//   - The configured plugs are those of the node. Plugs that go off and say so but feed another
//     machine cannot be told from the right ones as long as the node does not answer; where it
//     still does, the fence stops (WrongPlugSuspected).
//   - Nobody switches the machine on between the last proof and the deletion that rests on it,
//     which is at most 1 s and one request.
//   - An admin's confirmation is true.
//   - A message that a kernel writes a dump is from the node's machine, and it takes longer than
//     5 s from that until a kubelet runs there anew.
package statemachine
