// Package fencing makes the workloads of a lost node come up elsewhere without an admin, and never while its machine may still run them: it has the
// machine switched off, proves that, and only then takes the node's pods from the cluster.
//
//	controller, err := fencing.New(kube, dyn, fencing.Config{
//		Namespace:  "fencing",               // of the ConfigMaps that say how nodes are fenced
//		Node:       os.Getenv("NODE_NAME"),  // which this process never fences
//		Leadership: elector,                 // of package leaderelection
//		Agents:     agents,                  // that speak to BMCs, PDUs, clouds
//	})
//	...
//	err = elector.Run(ctx, controller.Run)
//
// A node that is not Ready for not_ready_for gets a record, a NodeFence. It is isolated: marked, so that nothing new is scheduled to it, and cut off from
// storage where that is configured. If it has not returned after power_wait, its machine loses its power, by all devices that feed it;
// each is read off twice, and the node is looked at once more. Then its pods are deleted and their volumes come loose, the machine gets
// its power back, and when its node reports again, it is made schedulable.
//
// What does what:
//
//	package      is
//	v1alpha1     NodeFence, the record of a fence: what kubectl shows, and all that the next controller knows
//	config       how a node is fenced, in ConfigMaps, and everything that can be wrong with that
//	policy       which lost node may be fenced now: storms, own partition, quorum, rate, one at a time
//	automaton    what a fence does next, as a function; its guarantees, and the exploration that proves them
//	sighting     what was seen of Nodes and their Leases, by this process' own clock
//	cluster      what a fence does to nodes, pods and volumes
//	agent        what it needs of devices
//	fenceagents  the programs of ClusterLabs' fence-agents: IPMI, Redfish, PDUs, switches, clouds
//	fencejobs    the same as Kubernetes Jobs
//	kdump        kernels that say that they write a dump
//	fencingtest  devices for tests, that lie
//
// This package joins them: it watches, asks, and does. Programs need it, v1alpha1, fenceagents or fencejobs, and of policy, sighting and
// cluster what [Config] and [Hooks] hold; agents of one's own need agent, and config for their Metadata. All else is public to be read, and may
// change in any version.
//
// # Guaranteed
//
// If the assumptions of package statemachine hold, above all that a device carries a command out within its settling time or never, and that a configured plug is that of
// the node:
//
//   - Pods are released only while the machine of their node is proved to be without power, or an admin has said so (TestSimulatedDeaths,
//     TestLyingDevices), or, with kdump=yes, within seconds of a message from the node's address that its kernel has stopped and writes a dump
//     (TestSimulatedDeathsInADump, TestMessageThatIsReadLate).
//   - A machine loses its power at most once in an incident, however often the controller dies, at whatever point, and whoever goes on
//     (TestSimulatedDeaths, TestTwoControllersAtOnce).
//   - A node that returns before its power is touched keeps it, and what was done to it is undone (TestNodeThatReturnsInTimeKeepsItsPower).
//   - A controller that is cut off from the API server, has lost its leadership, or has just come fences nobody
//     (TestControllerThatIsCutOffFencesNobody, TestControllerWithoutLeadershipDoesNothing).
//   - When half of the cluster or of a zone fails, nobody is fenced (TestSimulatedLossOf60Of100, e2e:TestLossOf60Of100FencesNobody). No more than
//     Limits.MaxConcurrent machines are off at a time, besides those that wait for a human, and no more than MaxStarts fences begin in a StartWindow (TestSimulatedLossOf30Of100,
//     TestSimulatedRateWithSlowWrites, e2e:TestLossOf30Of100FencesThemAll).
//   - What a reading of a device proves belongs to one machine: the Node's UID, boot ID, provider ID and system UUID (TestPlugOfTheMachineThatWasReplacedProvesNothing).
//     A device that is off already is believed only if it was seen on while that machine worked; the leader that comes next knows of it
//     (TestMachineThatIsOffAlreadyAndAnotherLeader). One that reads off while the node renews its Lease is not believed from then on, and the node says so
//     (TestPlugThatIsOffWhileItsNodeWorksProvesNothing).
//   - One level of devices that can be read is enough (TestDeadBMCThenPDUsWithDefaultTimes): with default settings the pods of a node that dies in whatever way leaves one
//     are released within eight and a half minutes of its loss (TestSimulatedDeathsOfNodes). The wrong configuration, the broken agent, the Secret that cannot be read of
//     one node keep no other from being fenced, and a configuration that was good stays so while only agents and Secrets fail
//     (TestOneBadConfigurationConcernsOneNode, TestConfigurationThatWasGoodStaysSo). A lost node that is not fenced has a record that says why, and an Event that
//     is repeated.
//   - The volumes of the lost machine come loose with its proof, by Kubernetes' own attach-detach controller: seconds after the power is off, not 6 min
//     (e2e:TestVolumeIsFreeOnceThePowerIsOff, e2e:TestVolumeOfAPodThatIsDeletedByForceStays).
//   - A kubelet that gives its Node the provider ID of another keeps that from nothing, whichever replica leads and in whatever order it sees the two
//     (TestProviderIDThatIsClaimedTwice), where NodeRestriction is in force. That no node has a configuration that can be used is not silent
//     (TestConfigurationThatIsUnusableAsAWhole).
//   - A fence that was given up, or waits for a human, keeps neither its node from the next fence (TestNodeThatIsMadeAgainIsFenced,
//     TestNodeThatIsToBeRemovedForAMomentIsFenced) nor other nodes from theirs (TestNodeThatWaitsForAHumanDoesNotKeepOthersWaiting).
//   - What a proxy answers makes no Node, Pod, Lease or record gone (TestPageOfAProxyMakesNothingGone).
//   - A fence ends: the node works, or the record says what keeps it (OnBlocked, status.hold) or that it was given up, and which plugs are off.
//   - What an admin asks for by an annotation of the NodeFence comes before anything else: see package v1alpha1 (TestAdminStops, TestAdminPauses,
//     TestAdminConfirms).
//
// # Not guaranteed
//
//   - That a fence succeeds. Where no device can prove that the machine is off, the workloads stay where they are until an admin confirms it.
//   - That a lost node is fenced that this controller, and those before it, have never seen Ready.
//   - That a device that was moved to another machine is found out at once: it is when it is read the next time, after CheckInterval, and only if it is off then.
//   - Protection from a wrong plug on a node that is cut off: no reading can show it. Commission each node while it works, see below.
//   - That a message of a dump is true: it is UDP from an address of the node, and nothing else. With kdump=yes whoever can send that has the pods of a node
//     released that is not Ready and runs them still, cut off. A message does nothing to a node that is Ready, or was not found failing before it came, or
//     shares the address with another (TestMessagesThatSayNothing).
//   - The process of an agent may outlive a controller that is killed, and send its command then. The next controller waits for as long as that may take. One that
//     cannot be ended at all holds its node's fence until the controller is restarted (TestNothingIsDoneBesideAnAgentThatCannotBeEnded).
//
// # Commissioning
//
// [Controller.Commission], or the annotation fencing.bellwether.dev/commission of a Node, takes the power of a node that an admin has drained, and proves that its devices are
// its own: it goes away, and comes back with another boot ID (TestCommissionProvesTheDevices, TestWrongPlugIsFoundOut). It is a NodeFence in a phase
// of its own, so that each command is written down first, and a crash at any point leaves the machine with power, or a record that names what is off
// (TestSimulatedDeathsInACommission). A failing node is never commissioned, and a commission never becomes a fence. With
// Config.RequireCommissioned nobody is fenced by devices that were not proved (TestOnlyCommissionedNodesAreFenced).
//
// # Leadership
//
// Run is to be the work of an elector, and the clients should have its WrapTransport: then a controller that has lost the leadership writes
// nothing, and begins no command. Another one that comes meanwhile knows from the record which command may be on its way. Two controllers at once do no harm
// but to time. The own node is never fenced: Run ends with [ErrOwnHost], so that another candidate leads and does it.
//
// Give it clients of its own, without client-go's default limit of 5 requests per second (QPS: -1, or some hundreds).
//
// # RBAC
//
//	nodes                                    get, list, watch, patch   taints, annotations, and the label of provider IDs
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
// and what its elector needs.
package fencing
