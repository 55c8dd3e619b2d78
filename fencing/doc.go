// Package fencing restarts the workloads of a lost node elsewhere without an admin, and never while
// the machine may still run them. It switches the machine off, proves that it is off, and only then
// deletes the node's pods.
//
//	controller, err := fencing.New(kube, dyn, fencing.Config{
//		Namespace:  "fencing",               // of the ConfigMaps that set how nodes are fenced
//		Node:       os.Getenv("NODE_NAME"),  // which this process never fences
//		Leadership: elector,                 // of package leaderelection
//		Agents:     agents,                  // for BMCs, PDUs and clouds
//	})
//	...
//	err = elector.Run(ctx, controller.Run)
//
// A node that has not been Ready for not_ready_for gets a record, a NodeFence, and is isolated: it
// is tainted, so that nothing new is scheduled to it, and cut off from storage where that is
// configured. If the node has not returned after power_wait, all devices that feed its machine
// switch it off. Once each of them has read off twice, and the node was read once more, its pods
// are deleted and its volumes are detached. Then the machine gets its power back, and the node is
// made schedulable when it reports again.
//
// Packages for programs:
//
//	package      contents
//	v1alpha1     NodeFence, the record of a fence: what kubectl shows and the next controller reads
//	agent        the interface to devices, for agents of your own
//	fenceagents  runs the programs of ClusterLabs' fence-agents: IPMI, Redfish, PDUs, switches, clouds
//	fencejobs    runs the same programs as Kubernetes Jobs
//	kdump        receives messages from kernels that write a dump
//	fencingtest  devices with faults, for tests
//
// Packages behind them, below internal/fencing:
//
//	package       contents
//	statemachine  the next step of a fence, as a function; its guarantees, and the search that proves them
//	policy        which lost node may be fenced now: storms, partitions, quorum, rate, concurrency
//	nodeconfig    how a node is fenced: parses and checks the ConfigMaps
//	nodeplan      what a ConfigMap says: methods and devices, in their order, and times
//	nodestate     the state of Nodes and their Leases, timed by this process's clock
//	cluster       the changes to nodes, pods and volumes
//
// # Guaranteed
//
// The guarantees rest on the assumptions of package statemachine. The most important ones are that
// a device executes a command within its settling time or never, and that a configured plug belongs
// to the node. The names in parentheses are those of the tests that fail otherwise.
//
//   - Pods are released only while the machine of their node is proved to be off, or after an admin
//     has confirmed it (TestSimulatedDeaths, TestLyingDevices). With kdump=yes they are also
//     released within seconds of a message from the node's address that its kernel has stopped and
//     writes a dump (TestSimulatedDeathsInADump, TestMessageThatIsReadLate).
//   - A machine loses its power at most once per incident, however often and wherever the
//     controller dies (TestSimulatedDeaths, TestTwoControllersAtOnce).
//   - A node that returns before its power is switched keeps it, and the isolation is undone
//     (TestNodeThatReturnsInTimeKeepsItsPower).
//   - A controller that is cut off from the API server, has lost its leadership or has just started
//     fences no node (TestControllerThatIsCutOffFencesNoNode,
//     TestControllerWithoutLeadershipDoesNothing).
//   - While two nodes or more are unhealthy, and they are half of the cluster or of a zone, no
//     further node is fenced (TestSimulatedLossOf60Of100, e2e:TestLossOf60Of100FencesNoNode). At
//     most Limits.MaxConcurrent machines are off at a time, not counting those whose fence was
//     paused, or has waited for a human, the node or the control plane, after it had switched a
//     device. At most MaxStarts fences start within a StartWindow (TestSimulatedLossOf30Of100,
//     TestSimulatedRateWithSlowWrites, e2e:TestLossOf30Of100FencesThemAll).
//   - A reading of a device proves something about one machine only. The machine is identified by
//     the Node's UID, boot ID, provider ID and system UUID
//     (TestPlugOfTheMachineThatWasReplacedProvesNothing). A device that is off before any command
//     is believed only if it was read on while that machine worked; the next leader also has that
//     knowledge (TestMachineThatIsOffAlreadyAndAnotherLeader). A device that reads off while the
//     node renews its Lease is no longer believed, and a condition of the Node reports it
//     (TestPlugThatIsOffWhileItsNodeWorksProvesNothing).
//   - Off proves nothing by itself where a suspended machine may read off, see
//     [agent.Metadata].OffIsProof. It then counts only after a command of this process that its
//     agent reports as sent, to a machine that was on (TestSuspendedMachineKeepsItsPods,
//     e2e:TestSuspendedMachine).
//   - A device is called only when the last call to it has ended, and by fences before checks.
//     Agent, address and port identify a device, unless the key device of its configuration does. A
//     device that hangs delays no checks of others (TestNodesOfOneDeviceTakeTurns,
//     TestDeviceWithTwoAddresses, TestDeviceThatHangsDelaysNoChecksOfOthers,
//     e2e:TestNodesOfOnePDU).
//   - One readable level of devices is enough (TestDeadBMCThenPDUsWithDefaultTimes). With default
//     settings the pods of a lost node are released within eight and a half minutes if one level
//     can be read (TestSimulatedDeathsOfNodes).
//   - A wrong configuration, a broken agent or an unreadable Secret of one node does not keep other
//     nodes from being fenced. A valid configuration stays valid while only agents and Secrets fail
//     (TestOneBadConfigurationConcernsOneNode, TestConfigurationThatWasGoodStaysSo,
//     TestSilentAgentDelaysNoOtherNodeWhileNodesComeAndGo). A command that cannot be sent because a
//     Secret is missing counts as a try (TestSecretThatIsDeletedDuringAFence). A lost node that is
//     not fenced has a record with the reason, and a repeated Event.
//   - A record that was edited by hand, so that no fence can continue from it, stops only the fence
//     of its node, until it is repaired (TestRecordThatIsEditedByHand).
//   - The attach-detach controller of Kubernetes detaches the volumes of the lost machine seconds
//     after the proof, not after 6 min (e2e:TestVolumeIsFreeOnceThePowerIsOff,
//     e2e:TestVolumeOfAPodThatIsDeletedByForceStays).
//   - A kubelet that copies the provider ID of another Node does not keep that Node from being
//     fenced, whichever replica leads and in whatever order it sees the two
//     (TestProviderIDThatIsClaimedTwice). This needs NodeRestriction.
//   - If no node has a usable configuration, Events and OnConfiguration report it
//     (TestConfigurationThatIsUnusableAsAWhole).
//   - A fence that was given up or waits for a human blocks neither the next fence of its node
//     (TestNodeThatIsMadeAgainIsFenced, TestNodeThatIsToBeRemovedForAMomentIsFenced) nor the fences
//     of other nodes (TestNodeThatWaitsForAHumanDoesNotKeepOthersWaiting,
//     TestFenceThatIsHeldAfterItsFirstCommandHasNoSlot). But after two fences in a row whose nodes
//     did not return within their BootGrace, the next waits for an admin, for up to six hours,
//     because a fence may not mend what is wrong (TestFencesThatDoNotHelp).
//   - A Node, Pod, Lease or record counts as gone only if the API server reports it, not if a proxy
//     answers 404 (TestPageOfAProxyMakesNothingGone). Likewise, a proxy's 403 neither fails a
//     method nor ends the controller (TestProxyThatAnswersNonsense).
//   - Every fence ends, or reports what it waits for in status.hold and OnBlocked, even if the API
//     server keeps refusing a step (TestReleaseThatIsRefusedStopsNoOtherFence,
//     TestMethodWhoseWebhookIsGoneFails). If it refuses status.hold as well, an Event and OnBlocked
//     report it (TestRecordThatIsRefusedStopsNoOtherFence). A fence that was given up reports which
//     plugs are off. The API server may take almost a second for an answer; if it takes longer,
//     nothing is released, and the record shows why (TestSlowAPIServer,
//     TestAPIServerThatIsTooSlowToReleaseAnything).
//   - The method detach-volumes takes no volume from a node that is not Ready, nor from one that
//     still uses volumes (TestVolumesStayWithALostNodeThatMayRun, TestVolumesOfAReadyNode).
//   - Annotations of an admin on the NodeFence take precedence; see package v1alpha1
//     (TestAdminStopsFenceThatHasCutPower, TestConfigMapPausesEverything, TestAdminConfirms).
//
// # Not guaranteed
//
//   - A fence may fail. Where no device can prove that the machine is off, the workloads stay until
//     an admin confirms it.
//   - A lost node that neither this controller nor an earlier one has ever seen Ready is not
//     fenced.
//   - A device that was moved to another machine is detected at its next reading, after
//     CheckInterval, and only if it is off then.
//   - No reading detects a wrong plug of a node that is cut off. Commission each node while it
//     works; see below.
//   - A dump message may be forged, because it is a UDP packet from an address of the node. With
//     kdump=yes, a sender of such packets can have the pods of a node released that is not Ready
//     but still runs them. A message has no effect on a node that is Ready, was not failing before
//     the message, or shares the address with another node
//     (TestKdumpMessagesOfNoSingleFailedNodeProveNothing).
//   - The process of an agent may survive a killed controller and send its command later. The next
//     controller waits as long as that may take. An agent that cannot be ended blocks the fence of
//     its node, not of others, until the controller is restarted
//     (TestNothingIsDoneBesideAnAgentThatCannotBeEnded,
//     TestAgentThatCannotBeEndedBlocksItsNodeOnly).
//
// # Commissioning
//
// [Controller.Commission], or the annotation fencing.bellwether.dev/commission of a Node, proves
// that the configured devices belong to a drained node. It switches the machine off; the node must
// go down and come back with another boot ID (TestCommissionProvesTheDevices,
// TestWrongPlugIsFoundOut). A commission is a NodeFence in a phase of its own. Each command is
// recorded first, so that a crash at any point leaves the machine on, or a record that names what
// is off (TestSimulatedDeathsInACommission). A failing node is never commissioned, and a commission
// never becomes a fence. With Config.RequireCommissioned, devices without this proof fence no node
// (TestOnlyCommissionedNodesAreFenced).
//
// # Leadership
//
// Run the controller under an elector, with clients that use the elector's WrapTransport. A
// controller without the leadership then neither writes nor sends commands. The record shows the
// next controller which command may still be under way. Two controllers at once cost time, but do
// no other harm. All controllers of a cluster need one election and one configuration, because they
// share the records: a controller gives up the fence of a node that its NodeSelector leaves out
// (or, with OnlyConfigured, its ConfigMaps), even if another one has begun it. The node of the
// controller itself is never fenced: Run ends with [ErrOwnHost], so that another candidate can lead
// and fence it. If the node fails and is Ready, Run does not end before it has run for twice
// Limits.Observation and Limits.CoolDown, so that an only replica still fences others.
//
// Use separate clients without client-go's default limit of 5 requests per second: QPS -1, or some
// hundreds.
//
// # RBAC
//
//	nodes                                    get, list, watch, patch  taints, annotations, a label
//	nodes/status                             patch             the condition FenceReady
//	leases (coordination.k8s.io)             get, list, watch  in kube-node-lease
//	nodefences (fencing.bellwether.dev)      get, list, watch, create, update, delete
//	nodefences/status                        update
//	pods                                     get, list, delete
//	pods/status                              patch
//	volumeattachments (storage.k8s.io)       list
//	configmaps                               list, watch       in Namespace
//	secrets                                  get               in Namespace
//	events (events.k8s.io)                   create, patch     with Events
//	pods/eviction                            create            with the methods clean-pods and detach-volumes
//	volumeattachments (storage.k8s.io)       delete            with the method detach-volumes
//	nodes                                    delete            with the method delete-node
//	persistentvolumeclaims, persistentvolumes   get            with Storage
//
// and what its elector needs. At the start, and when a request is refused, one log line names all
// of these rights that the configuration needs and that are missing. Run asks for each of them
// once.
package fencing
