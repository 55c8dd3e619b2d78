// Package policy decides which lost node may be fenced now, and gives the reason if it may not.
//
//	state = state.Observe(view, limits) // whenever anything has changed, and every few seconds
//	for _, n := range policy.Order(queue) {
//		d := policy.Decide(policy.Input{
//			View: view, State: state, Limits: limits,
//			Target: policy.Target{Name: n.Name, UID: uid, Devices: 1},
//			Self:   policy.Self{Node: os.Getenv("NODE_NAME"), LastAPIWrite: renewed},
//		})
//		...
//	}
//
// Switching off a failed machine restarts its work elsewhere, but switching off machines because a
// switch, a storage or the controller itself has failed ends working workloads. This package
// switches nothing, sends no requests, and has no clock or goroutine, because a decision is a
// function of its input.
//
// # The gates
//
// A decision evaluates all gates, so that it reports everything that prevents a fence. The first
// gate that does not allow the fence gives the verdict: [Deny] ends the fence, [Hold] delays it for
// an unknown time, and [Wait] for a known one.
//
//	gate          does not let pass                                       verdict  protects from
//	Identity      the Node is gone, has another UID, is being deleted, or     Deny  switching off a machine
//	              has an autoscaler's taint                                         of another Node
//	Machine       a Ready node has its system UUID, its machine ID or an      Hold  switching off a machine that
//	              address of it                                                     works under another name
//	Selection     not selected, or excluded by its label                      Deny  fencing without a request
//	OwnHost       the controller's own node: it gives up leading, so that     Hold  a fence without an end
//	              another one fences it
//	Admin         paused, or outside of a maintenance window                  Hold  disturbing admins
//	Duration      failing for less than NotReadyFor (T)                       Wait  fencing for a hiccup
//	              Ready; never Ready as far as is known; no Ready condition   Hold
//	Readiness     invalid limits or configuration, no device, no level of     Hold  beginning what cannot
//	              devices that passed its last check, or not commissioned           be ended
//	              although required
//	OwnPartition  no write confirmed for APISilence; the Lease of its own     Hold  a controller that is cut
//	              node, or of all nodes but the target, silent for longer           off, or new
//	              than LeaseSilence; nodes observed for less than Observation
//	Storage       the controller does not reach the storage, or does not      Hold  fencing for a failure of
//	              know; the node reported that it cannot reach it                   the storage
//	Storm         U >= 2 and U*100 >= P*N                                     Hold  a failed switch that looks
//	ZoneStorm     the same in the target's zone, unless there is only one     Hold  like failed machines
//	CoolDown      one of these held less than CoolDown (C) ago                Wait  nodes that return slowly
//	ControlPlane  another node of the control plane is being fenced or        Hold  ending the quorum of etcd
//	              boots, or less than floor(n/2)+1 of n would stay healthy
//	Repeats       MaxRepeats fences of this node in RepeatWindow              Hold  a fence that does not help
//	Return        the last two fences of other nodes in 6 h did not bring     Hold  cutting machines that work
//	              their nodes back                                            one after the other
//	Rate          MaxStarts fences in StartWindow                             Wait  losing a cluster bit by bit
//	Concurrency   MaxConcurrent fences have devices switched                  Hold  the same, at once
//
// Storm, ZoneStorm, CoolDown, Repeats, Return, Rate, Concurrency and, except for invalid limits,
// Readiness apply to the start of a fence only. A fence that has recorded a command to a device
// ([Target].Switched) would otherwise be left half-way. Rate and Concurrency concern devices, and
// do not apply to [Isolate]. Decide before a fence starts, and, with Switched, before each further
// command to switch something off. [Limits] has the defaults.
//
// A [Commission] is not a fence: Duration requires a working node, and Repeats, Return and
// Rate do not apply.
//
// # What is counted
//
// N is the number of members: selected, not excluded, not being deleted, the control plane
// included. A node that is known to be joining, because it was never Ready, is not a member. U is
// the number of unhealthy members. A member is unhealthy if it is not Ready or has any other
// condition that starts a fence, for however short a time; if its Lease is not renewed, even while
// it is shown as Ready; if it has a fence that is queued, active or booting; or if nothing is known
// about it. Each node counts once. Both sides of the comparison are multiplied out, so that nothing
// is rounded. With P = 50:
//
//	N      U        verdict
//	1      1        Hold OwnPartition: no other node's Lease is renewed
//	2      1        Allow, if the other node's Lease is renewed: one node is no storm
//	2      2        Hold Storm
//	3      1        Allow: 100 < 150
//	3      2        Hold Storm: 200 >= 150
//	4      2        Hold Storm: 200 >= 200
//	5      2        Allow: 200 < 250
//	5      3        Hold Storm
//	7      3        Allow: 300 < 350
//	7      4        Hold Storm
//	100    30, 49   Allow
//	100    50, 60   Hold Storm
//
// A zone with two nodes that fail together is one failed rack: Hold ZoneStorm. Nodes without a zone
// form one zone. A control plane of one or two nodes is never fenced without an administrator. In a
// control plane of three or five, two or three other nodes must be healthy.
//
// # Guaranteed
//
// The names in parentheses are those of the tests that fail otherwise.
//
//   - A decision allows nothing if one gate does not (TestAllowedMeans, TestForgottenGates), and
//     nothing for a zero [Input] (TestZeroInputIsNotAllowed).
//   - Neither missing knowledge nor a change for the worse (a failing node, a silent Lease, one
//     more fence or start) ever allows a fence (TestWorseIsNeverAllowed).
//   - For consecutive decisions, each with the facts of the previous one in its view, at most
//     MaxConcurrent fences have devices switched at a time, and at most MaxStarts start within a
//     StartWindow, even if the leader changes (TestLossOf30Of100FencesThemAll,
//     TestLeaderAfterLeader).
//   - No node is fenced during a storm, nor for CoolDown after it (TestStormOf60Of100FencesNoNode,
//     TestCoolDownFollowsTheStorm).
//   - A process that has just started, or was stopped for longer than LeaseSilence, observes before
//     it decides (TestGates, TestProcessThatWasStoppedObservesAgain). If two nodes are unhealthy
//     then, it waits for CoolDown, because a storm may just have ended
//     (TestNewLeaderMayHaveMissedTheEndOfAStorm).
//
// # Not guaranteed
//
//   - A controller cannot detect that only it is cut off from the nodes, or since when. It relies
//     on the API server, whose knowledge is as old as LeaseSilence and APISilence permit. A node
//     that only the API server has lost looks like a dead one. The fence must be safe in both
//     cases; this package limits how often it happens.
//   - A storm in a part of the cluster that is not a zone and less than P of the cluster counts as
//     single losses. Set zones, or a lower StormPercent.
//   - Two decisions on the same view may both allow a fence, and so may those of two processes. Let
//     only a leader decide, and add each allowed fence to the next view, by NodeFacts.Fence and
//     Starting, until a record has it.
//   - Times are readings of the caller's clock. If that clock stops while the machine is suspended,
//     as that of package time does, everything looks recent afterwards. Use a leadership that such
//     a process has lost by then, like that of package leaderelection.
//   - Facts may change after they were read. Decide again, on a new reading of the node, before
//     each command to a device.
//   - A storm that starts and ends between two calls of [State.Observe] has no cool-down.
//   - Rate and repeats of earlier processes are known from records, with the times of other clocks.
//     An error of such a clock moves the end of a window by as much, but at most by the length of
//     the window.
//   - A new process cannot tell how much of a [Budget] the previous one has used, and begins with
//     nothing.
package policy
