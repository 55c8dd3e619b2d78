// Package policy decides which lost node may be fenced now, and says why not.
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
// To switch off a machine that has failed makes its work come up elsewhere. To switch off machines
// because a switch, a storage or the controller itself has failed ends what still worked. Nothing
// here switches anything, asks anybody or has a clock or a goroutine: a decision is a function of
// the values that it is given.
//
// # The gates
//
// All gates are asked in each decision, so that it says all that stands in the way; the first one
// that does not let pass gives the verdict. [Deny] ends the fence, [Hold] keeps it, [Wait] keeps it
// and knows for how long.
//
//	gate          does not let pass                                                   verdict   protects from
//	Identity      the Node is gone, has another UID, is being deleted, or has an      Deny      switching off a machine that is
//	              autoscaler's taint                                                            somebody else's now
//	Selection     not selected, or excluded by its label                              Deny      fencing what nobody asked for
//	OwnHost       the controller's own node: give up leading, so that another one     Hold      a fence that nobody can finish
//	              fences it
//	Admin         paused, or outside of a maintenance window                          Hold      disturbing those who are at work
//	Duration      failing for less than NotReadyFor (T)                               Wait      fencing for a hiccup
//	              Ready; never Ready as far as is known; no Ready condition           Hold
//	Readiness     invalid limits or configuration, no device, no level of devices     Hold      beginning what cannot be ended
//	              that passed its last check, or not commissioned and has to be
//	OwnPartition  no write confirmed for APISilence, the own node's Lease silent for  Hold      a controller that is cut off itself,
//	              longer than LeaseSilence, or the Leases of all nodes but the                  or has just come
//	              target; nodes not observed for Observation yet
//	Storage       the controller does not reach the storage, or does not know; the    Hold      fencing for what the storage did
//	              node said that it does not
//	Storm         U >= 2 and U*100 >= P*N                                             Hold      a failed switch that looks like
//	ZoneStorm     the same in the target's zone, unless there is only one             Hold      many failed machines
//	CoolDown      one of these was so less than CoolDown (C) ago                      Wait      nodes that are slow to come back
//	ControlPlane  another node of the control plane is being fenced or boots, or      Hold      ending the quorum of etcd
//	              less than floor(n/2)+1 of n would be left healthy
//	Repeats       MaxRepeats fences of this node in RepeatWindow                      Hold      a fence that does not help
//	Rate          MaxStarts fences in StartWindow                                     Wait      losing a cluster bit by bit
//	Concurrency   MaxConcurrent fences have devices switched                          Hold      as much at once
//
// Storm, ZoneStorm, CoolDown, Repeats, Rate, Concurrency and, but for invalid limits, Readiness are
// asked at the beginning only: never of a fence that has already had an intent to switch a device
// ([Target].Switched), which would be left half-way. Rate and Concurrency are about devices, so not
// about [Isolate]. So ask before a fence begins, and, with Switched, before each further intent to
// switch something off. The defaults are those of [Limits].
//
// A [Commission] is no fence: Duration wants a node that works, and Repeats and Rate have nothing
// to say.
//
// # What is counted
//
// N are the members of the cluster: selected, not excluded, not about to be deleted, the control
// plane included. A node that is known to be still joining, as it was never Ready, counts nowhere.
// U are the members that are not Ready, or fail any other condition that fences are started for,
// for however short a time; or whose Lease is silent, also while they are still shown as Ready; or
// that have a fence which is queued, active or booting; so is whoever nothing is known of. A node
// counts once. Both sides of the comparison are multiplied out, never divided, so that nothing is
// rounded. With P = 50:
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
// A zone of two nodes that fail together is a rack, and not two machines: Hold ZoneStorm. Nodes
// without a zone form one together. A control plane of one or two nodes is never fenced without an
// administrator, one of three or five if two or three others are healthy.
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - Nothing is allowed that one gate has something against (TestAllowedMeans,
//     TestForgottenGates), nor by a zero [Input] (TestZeroInputIsNotAllowed).
//   - What is not known is never a reason to allow, and what makes things worse never is: a node
//     that fails, a Lease that falls silent, a fence or a start more (TestWorseIsNeverAllowed).
//   - Asked one after another, with the facts of each in the view of the next, no more than
//     MaxConcurrent fences have devices switched at a time, and no more than MaxStarts begin in a
//     StartWindow, also if the leader changes (TestLossOf30Of100FencesThemAll,
//     TestLeaderAfterLeader).
//   - A storm fences nobody while it lasts, nor for CoolDown after it
//     (TestStormOf60Of100FencesNobody, TestCoolDownFollowsTheStorm).
//   - A process that has just begun, or that was stopped for longer than LeaseSilence, observes
//     before it judges (TestGates, TestProcessThatWasStoppedObservesAnew). If two nodes are
//     unhealthy then, it waits for CoolDown, as it cannot know whether a storm has just ended
//     (TestNewLeaderMayHaveMissedTheEndOfAStorm).
//
// # Not guaranteed
//
//   - A controller cannot know that it is cut off from the nodes alone, or for how long already: it
//     has the API server's word, which is as old as LeaseSilence and APISilence permit. A node that
//     is lost to the API server and works otherwise looks like one that is dead. What is done to it
//     has to be safe in both cases; this package limits how often that happens.
//   - A storm in a part of the cluster that is no zone, and is less than P of everything, is that
//     many single losses. Set zones, or a lower StormPercent.
//   - Decisions that do not know of each other. Two about the same view may both be allowed; so may
//     those of two processes. Let only a leader decide, and make each decision's beginning part of
//     the next view: by NodeFacts.Fence and Starting, until a record has it.
//   - Times are by the caller's clock. If that stands still while the machine is suspended, as that
//     of package time does, everything seems fresh afterwards: let the leadership be one that such
//     a process has lost by then, as that of package leaderelection is.
//   - Facts change after they were read. Ask again, with the node read anew, before each intent to
//     switch a device.
//   - A storm that begins and ends between two calls of [State.Observe] leaves no cool-down.
//   - Rate and repeats of earlier processes are known from records, whose times are by others'
//     clocks: an error of such a clock shifts the end of a window by as much, at most by the length
//     of the window.
//   - [Budget]: a process that takes over does not know the debt of the one before it, and waits
//     for a minute.
package policy
