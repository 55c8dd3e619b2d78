// Package statemachine decides the next step of a fence. A fence switches off the machine of a
// failed node, so that its workloads can run elsewhere without an admin, and never while the
// machine may still run them.
//
// [Transition] is a pure function of the record ([v1alpha1.NodeFence]), the configuration ([nodeplan.Plan]),
// the answers of the policy ([Policy]), what this process has seen and done ([Memory]), and the
// time. It returns one [Step]. A controller is this loop:
//
//	for {
//		step := statemachine.Transition(statemachine.Input{
//			Fence: fence, Plan: plan, Policy: policy, Memory: memory, Now: clock.Now(),
//		})
//		// Do it: write the status, look at the node, read or command a device, delete pods, or wait.
//		memory = memory.After(&fence.Status, step, outcome)
//	}
//
// It runs in one process at a time, under leader election. Nothing blocks, because waits are steps.
// Everything that must survive the process is written to the record before it is acted on, so a
// lost memory costs only time.
//
// # What is guaranteed
//
//   - Workloads are released only while the machine is off or an admin has confirmed it. Pods are
//     also released while a kernel writes a dump.
//   - A device takes a machine's power at most once per incident. It is commanded again only if it
//     read on when no command could be under way.
//   - A node that is Ready, gone, or another machine does not lose its power. The exception is a
//     commission, of a node that is Ready, cordoned, and has not rebooted since the request of the
//     admin.
//   - Nothing is switched off after a stop was acknowledged, or after the end of a fence.
//   - Power comes back only after the release, or if there will be none.
//   - The cordon of an admin and a foreign out-of-service taint are not touched.
//   - A fence that was given up does not prevent the next fence of its node: of another Node of its
//     name, of a node that has worked since, or of a node that is no longer excluded or marked for
//     removal.
//   - There is no dead end, and no endless loop of writes or commands. The workloads of a dead node
//     with working devices are released, however often the controller is restarted. Only if it is
//     restarted in the seconds between a command to an ambiguous device and the reading after it,
//     an admin must look.
//
// The tests of the package explore these exhaustively, within budgets: small ones in a minute, and
// ninety million states with make soak. They run this code through crashes after each write and
// side effect, lost and late commands, stale records, devices that fail, lie or cannot be read,
// nodes that return and vanish, and admins. They also remove each safeguard once, and detect that.
//
// # What is assumed
//
//   - A command takes effect within the settling time of its device, or never. A later effect could
//     take the power of a machine that was restored.
//   - The configured plugs belong to the node. Plugs that go off but feed another machine cannot be
//     distinguished from the right ones while the node does not answer. If the node still answers,
//     the fence stops (WrongPlugSuspected).
//   - The machine is not switched on between the last proof and the deletion that relies on it,
//     which is at most 1 s and one request.
//   - The confirmation of an admin is true.
//   - A dump message is from the node's machine, and no kubelet runs there within 5 s of it.
//   - The wall clock of the next leader is not ahead of that of the one before by as much as
//     PowerWait. Otherwise the node has less time to return, because the next leader takes from the
//     record when the wait began. No proof depends on it.
//
// # The flow
//
// The steps are isolation, power-management and recovery, as in the Kubernetes proposal for node
// fencing. The step and status of a record show their progress. The phase is the exact state:
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
// A commission is not a fence, but shares the way back with fences:
//
//	flowchart TD
//	    Commissioning["Commissioning: Power-Management/Running"]
//	    Commissioning -->|NodeWentDown, CommissionFailed, WrongPlugSuspected, Contradicted| Restoring
//	    Commissioning -->|CommissionFailed, nothing touched| Final
//	    Recovering -->|NextLevel| Commissioning
//	    Recovering -->|Commissioned, CommissionFailed| Final
//	    Booting -->|BootGraceOver| GivenUp
//
// A commission starts with CommissionBegun, in place of Begun or IncidentReopened, for a working,
// cordoned node whose record has the annotation. Each device is switched off once. Any deviation
// ends the commission, and the power comes back. A commission never enters the phases of a fence,
// so it releases nothing, and its node is not fenced for it.
//
// Stopped leads from every phase except the ends to Restoring. Confirmed leads to Releasing from
// Error, GivenUp and every phase before Releasing. NodeGone leads to Restoring, which then switches
// nothing on. The names are those of [Reason].
//
// # One device
//
// A device is read before it is commanded. Devices of the first level are read in the last 5 s of
// the wait, so that no time is lost after it. Such a reading proves nothing, and is repeated if it
// is older than 10 s when the command is recorded.
//
// A device that reads off before its first command (FoundOff) was switched off by a person, who may
// be working on the machine, or by another controller. It gets the command all the same, and proves
// that the machine is off if it is known, but it is not switched on again. The fence then ends in
// GivenUp, and continues to Final when the node returns.
//
// Some devices are ambiguous: they also read off while their machine is suspended, and its programs
// continue later. Their off proves something only if this process has commanded it, and the agent
// reports that it has found the device on and sent the command. Otherwise another level is used, or
// the fence waits for an admin (OffUnclear).
//
// A device that cannot be read is not commanded if there is another level. Otherwise a command is
// recorded (OffIntent) before it is sent, with an ID from the record's UID, the incident and a
// count. The node is read in between, and the command starts within 2 s of that reading. The effect
// of a command is read from the device, because the answer to the command never suffices:
//
//   - If the device reads off twice, it is off (OffSeen). It is not switched off again in this
//     incident.
//   - If it reads on or cannot be read, another level is used at once if there is one. Otherwise,
//     and before any other command to this device, the fence waits for the settling time of the
//     device and reads it once more.
//   - If it still reads on, the command is spent (OffSpent), and another one may be sent.
//   - If it still cannot be read, this counts as a try, and no command is sent.
//
// A process that finds a recorded command of another process does not know whether it was sent.
// From its own start, it waits for the duration of the call and the settling time.
//
// # The release
//
// The machine is off (Verified) when all feeds of a level were read off twice in one pass, and the
// node was then read and is not Ready. Each part of the release repeats both. Neither may be older
// than 1 s when something is removed from the node. If they keep being older, the record reports it
// (ProofTooOld), and the fence continues. First the pods are listed and deleted by UID, until no
// pod is left. A quarter of a second later the node gets the taint
// node.kubernetes.io/out-of-service, which detaches its volumes, even if nothing seems to be
// attached. The taint stays until the volumes are detached, and is removed before the machine is
// switched on, because Kubernetes also detaches volumes from a working node with this taint. Only
// then is the machine switched on. There is no reboot command, because it would do both at once.
//
// The taint never comes before the pods are gone, because with it Kubernetes deletes the pods that
// it believes to be on the node by name. A pod of a StatefulSet that was just deleted already has a
// successor of that name on a working node, which would be deleted. Nor would volumes be detached
// sooner. A process that has not itself seen the pods gone, because the previous one has crashed,
// therefore first lists and deletes them again.
//
// Devices of the isolation step may cut a node off from storage. When they all read off, the pods
// that use that storage are released. If an optional one cannot be switched off, no pod is released
// for the others, because they may be paths to the same storage. Such a device is switched on again
// only for a machine that has since been off or has another boot ID, because its programs may still
// hold unwritten data.
//
// A kernel that sends dump messages has stopped, with all programs. If the plan has Kdump, the pods
// of the isolated node are released (DumpSeen, DumpPodsReleased), each within 5 s of a message
// after the start of the incident. They are not released once the node is Ready or has another boot
// ID. Because the machine is still on and reboots after the dump, its volumes are not touched, and
// nothing else is proved. The first command to take its power waits until 30 s after the last
// message, or for KdumpTimeout.
//
// # Differences from the proposal
//
//   - Not Ready after power-management is an error only after BootGrace, because otherwise each
//     boot would be an error.
//   - A restart after an error keeps its knowledge, so that what was off is not switched off again,
//     and what was released is not released again.
//   - Ready counts only after the Lease of the node was renewed between two readings after the last
//     command, because a machine that has just lost its power shows Ready for most of a minute.
//     Another boot ID does not count, because it may be old.
//   - The workloads of a Ready node are not released, even if another condition takes its power,
//     because it will not be Ready for long unless the devices belong to another machine.
//   - The fence uses its own taint to keep pods off the node, because spec.unschedulable belongs to
//     the admin and cannot have two owners.
//   - When a fence ends, the record lists the plugs that are off. A stop is acknowledged (the
//     condition Stopped) when no command can take effect any more.
//   - No command goes to a device before the previous one has settled, even if the device reads as
//     commanded, because it may have read so before.
//   - A device to which a command to switch on was sent is not switched off again in the incident.
//     If it could not be read in between, its state is unknown.
//   - A configuration that is missing, or differs from the one used for earlier commands, stops a
//     fence where it is, with a reason in the record. It does not leave devices off.
//   - A confirmation by an admin is accepted in every phase before the release, and refused after
//     it, so that an old one cannot count after the machine was switched on.
package statemachine
