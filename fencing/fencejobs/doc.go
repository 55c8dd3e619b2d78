// Package fencejobs runs the programs of ClusterLabs' fence-agents as Kubernetes Jobs, whereas
// package fenceagents runs them in the process of the controller. With Jobs, the image of the
// controller needs no agents, only the nodes with the Jobs' pods must reach the devices, and each
// agent has its own container. Use [Jobs] as fencing.Config.Agents.
//
//	agents, err := fencejobs.New(client, fencejobs.Config{
//		Namespace: "fencer-jobs", Image: "registry.example/fence-agents:1.0",
//	})
//
// The image has the agents and the program fencejob of this package, which calls [Execute] in the
// pod. examples/fencer/Dockerfile builds one.
//
// # Guaranteed
//
// The names in parentheses are those of the tests that fail otherwise. Those with the prefix "e2e:"
// are in internal/e2e/fencejobs, and run the real program with the protocol of a real BMC and a
// real control plane; e2e:TestNodeIsFencedByJobs runs a whole fence.
//
//   - Each operation has one Job. A Job that exists is adopted, even by another process, and its
//     answer is that of the operation (TestOneCommandOfOneOperation,
//     TestControllerThatDiesIsFollowed, TestLostAnswerToACreation, e2e:TestJobIsAdopted). A Job
//     that was given up stays, so that it is not created again while it is kept
//     (TestPodThatNeverRuns).
//   - A Job of that name for another node, device, agent or command is an error, and is not touched
//     (TestForeignJobIsNeverAdopted).
//   - No command is sent after its window has closed, and none of its processes survives the
//     window's end, if the clocks of the controller's and the pod's node differ by at most
//     ClockSkew; see Operation for the window. This includes pods that start late for any reason:
//     no node, no image, no Secret, or a stopped kubelet or Job controller (TestNothingIsSentLate,
//     TestRefusal, TestSlowMetadata, TestAgentEndsWithTheWindow,
//     e2e:TestPodThatStartsLateSendsNothing).
//   - Switch returns before the end of the call's time only if the Job controller has finished the
//     Job and the kubelet of each pod has reported its end, or if nothing was sent. The settling
//     time of a fence, which starts there, or after a crash at the end of the call's time,
//     therefore covers everything that a pod may still do
//     (TestCallLastsAsLongAsSomethingMayBeSent).
//   - A process that is stopped during a call gets no additional time, and answers that it finds
//     later do not count (TestStoppedCallerGetsNoMoreTime, TestReadingsAreFresh).
//   - A reading comes from a pod that was created for it, and is at most AnswerWithin plus
//     ClockSkew old. An answer that is not exactly in the expected form is rejected
//     (TestReadingsAreFresh, TestMalformedResultsAreRefused).
//   - A pod never runs on the node that it is about. The scheduler excludes the node by its name,
//     and the program refuses to run there (TestPodIsSafe, TestExecute, e2e:TestJobRunsElsewhere).
//   - Parameters are only in the Secret, not in the Job, its pod, arguments, the environment, logs,
//     Events or answers. Error texts of agents are scrubbed (TestSecretsAreInTheSecretOnly,
//     e2e:TestSecretsOfJobs).
//   - Pods have no token, do not run as root, cannot write to their file system and cannot gain
//     privileges (TestPodIsSafe).
//
// # Not guaranteed
//
//   - A command may be sent twice, because Kubernetes in rare cases starts the program of a Job's
//     pod twice. Both starts are within the window, before the settling time of the fence begins
//     and anything is switched on again, so the second off finds the machine off.
//   - Nothing about time holds if clocks differ by more than ClockSkew. If the pod's clock is
//     ahead, nothing is sent. If it is further behind, a pod that was late before its kubelet wrote
//     the request may send its command late. That cannot happen after the end of the call, because
//     the Secret is then deleted, unless the controller has died and the Job controller does not
//     end the Job. Run a time service on all nodes.
//   - A virtual machine may be paused between the last check of the clock and the command.
//   - The node may have returned when the command is sent, because the controller checks it just
//     before the call, and a pod needs some seconds to start. A node that returns within
//     StartWithin is switched off nevertheless. If that matters, run agents in the process of the
//     controller.
//   - Readings are about a second older than those of package fenceagents, because kubelets report
//     late.
//   - Jobs need a Job controller, a scheduler, and a working node with capacity. Set
//     Pod.Spec.PriorityClassName. Run agents in the process of the controller if the cluster is small, or if
//     the control plane itself may be lost.
//   - Each reading is a pod. With many nodes, increase fencing.Config.CheckInterval.
//   - A user who may create Jobs or Pods in Namespace, or read its Secrets, has the passwords of
//     the devices.
//   - If the controller dies or loses its leadership during a call, the parameters are deleted with
//     the Job, after KeepFor.
//
// # Operation
//
// The Job of a command has the command's ID as its name: fence-<UID>-<incident>-<operation>, with
// the beginning of the UID of the NodeFence. The record lists it in status.jobs. The controller
// creates the Job and a Secret that the Job owns and its pod waits for. The Secret has the request,
// with the agent's parameters, and is deleted when the call ends. The pod reads and executes the
// request, and answers with its termination message, which the controller reads from the pod's
// status. The Job of a command is kept for KeepFor, while Jobs of readings and of metadata have
// random names and are deleted at once. While a Job runs, the controller sends two requests each
// Poll, by name and by label. There are no watches.
//
// A request has a window. The command must be sent before the window closes, StartWithin after the
// start of the call. All processes must be dead when the window ends, ClockSkew before the end of
// the call. The pod compares the window with the clock of its node when it starts and just before
// it passes the command to the agent. It also compares it with the age of the request's file, by
// the same clock.
//
// # Why a separate Secret
//
// The pod could mount the Secrets that the configuration names, but they would have to be in its
// namespace, a pod for one BMC could read the passwords of all, and the controller would have to
// know which of an agent's parameters are secret. Instead, the pod gets one Secret with the whole
// request, which exists as long as the call. Its name has the name of the Job and a random part, so
// that a new Job cannot find the request of an older one.
//
// # RBAC
//
// In Namespace, besides the permissions of package fencing:
//
//	jobs (batch)   create, get, patch, delete
//	pods           list
//	secrets        create, delete
//
// The ServiceAccount of the pods needs no permissions. When the controller first uses a Job, it
// names those of these that are missing together with its own.
package fencejobs
