// Package fencejobs runs the programs of ClusterLabs' fence-agents as Kubernetes Jobs, where package fenceagents runs them in the controller's own process:
// the controller's image needs none of them, only the nodes that the Jobs' pods run on need to reach the devices, and what an agent does to itself it does in a container
// of its own. [Jobs] is what a fencing controller needs of agents: pass it as fencing.Config.Agents.
//
//	agents, err := fencejobs.New(client, fencejobs.Config{Namespace: "fencer-jobs", Image: "registry.example/fence-agents:1.0"})
//
// The image has the agents and the program fencejob of this package (examples/fencer/Dockerfile builds one), which does in the pod what [Execute] says.
//
// # What happens
//
// A command has the Job with its ID as a name: fence-<node's UID>-<incident>-<operation>, which the record names in status.jobs. The controller creates the Job, then a
// Secret that the Job owns and its pod waits for: the request, with the agent's parameters. The pod reads it, does what it says, and answers by its termination message, which
// the controller reads from the pod's status. The Secret is deleted when the call ends; the Job of a command is kept for KeepFor, to be looked at. Readings, and what an
// agent says of itself, have Jobs with names of their own, which are deleted at once. While one runs, the API server gets two requests each Poll, by name and by label;
// there are no watches.
//
// A request has a window. The command must be sent before it closes, StartWithin after the call began, and all that was started for it must be dead
// when it ends, ClockSkew before the call's time is over. The pod compares it with its node's clock when it starts, and again just before it hands the command to the agent; and with
// how long ago, by that same clock, its kubelet has written the request down.
//
// # Guaranteed
//
// In brackets: the test that fails without it. Those that begin with "e2e:" run the real program, with a real BMC's protocol and a real control plane, in
// internal/e2e/fencejobs; there, a whole fence is e2e:TestNodeIsFencedByJobs.
//
//   - One Job for one operation: a Job that exists already is adopted, also by another process, and its answer is the operation's
//     (TestOneCommandOfOneOperation, TestControllerThatDiesIsFollowed, TestLostAnswerToACreation, e2e:TestJobIsAdopted). One that was given up stays, so
//     it is not made once more while it is kept (TestPodThatNeverRuns).
//   - A Job of that name that was made for another node, device, agent or command is an error, and is left alone
//     (TestForeignJobIsNeverAdopted).
//   - No command is sent after its window has closed, and none of its processes is alive after the window's end, if the clocks of the controller's node and of the pod's differ by at most
//     ClockSkew. That is for pods that were started late, whatever has kept them: no node, no image, no Secret, a kubelet or a controller of Jobs that was stopped
//     (TestNothingIsSentLate, TestRefusal, TestSlowMetadata, TestAgentEndsWithTheWindow, e2e:TestPodThatStartsLateSendsNothing).
//   - Switch returns before the call's time is over only when the controller of Jobs is done with the Job and the kubelet of each of its pods has said that
//     it has ended; or where nothing was sent. So the settling time that a fence counts from there, or after a crash from the call's whole time, covers whatever a pod may
//     still do (TestCallLastsAsLongAsSomethingMayBeSent).
//   - A process that is stopped within a call gets no more time by that, nor do answers that it finds afterwards count (TestStoppedCallerGetsNoMoreTime,
//     TestReadingsAreFresh).
//   - A reading is of a pod that was made for it, and was taken at most AnswerWithin and ClockSkew ago. What a pod says is taken word for word or not at all
//     (TestReadingsAreFresh, TestAnswersThatAreNone).
//   - A pod never runs on the node that it is about: the scheduler is told so by the node's name, and the program refuses where a pod got there by another way
//     (TestPodIsSafe, TestExecute, e2e:TestJobRunsElsewhere).
//   - Parameters are in the Secret only: not in the Job or its pod, in arguments, the environment, logs, Events or answers, of which agents' complaints have lost what may be secret
//     (TestSecretsAreInTheSecretOnly, e2e:TestSecretsOfJobs).
//   - Pods have no token, are not root, and can neither write to their file system nor get more rights (TestPodIsSafe).
//
// # Not guaranteed
//
//   - That a command is sent once: Kubernetes may, in rare cases, start the program of a Job's pod twice, and says so. Both times are within the window, and before the
//     fence's settling time begins, which is before anything is switched on again: the second off finds the machine off. A program twice is no machine twice.
//   - Anything about time where clocks differ by more than ClockSkew. One that is ahead has nothing sent. With one that is behind by more, a pod that is late may send its command
//     late; it must then also have been late before its kubelet wrote its request down, which it cannot do once the call has ended, since the Secret is deleted, unless the
//     controller has died meanwhile, and the controller of Jobs does not end its Job. Run a time service on all nodes.
//   - Nor where a virtual machine is paused between the last look at the clock and the hand-over.
//   - That the node is still lost when the command is sent. The controller has looked at it just before the call; a pod takes some seconds to start. A node that returns within StartWithin
//     is switched off all the same. Where that matters more than the advantages, run agents in the controller's process.
//   - That a reading is as young as one that was taken by this process: kubelets take about a second to report. A machine that somebody switches on by hand just then is
//     noticed so much later.
//   - That there is a node to run on. A fence needs the controller of Jobs, the scheduler, a working node, and room on it: set PriorityClassName. In a small
//     cluster, or one whose control plane is what is lost, run agents in the controller's process.
//   - Cheap checks. Each reading is a pod: with many nodes make fencing.Config.CheckInterval longer.
//   - That nobody else makes such Jobs. Whoever may create Jobs or Pods in Namespace, or read its Secrets, has the devices' passwords.
//   - The parameters are not wiped where the controller dies, or loses its leadership, within a call: they are deleted with the Job, when KeepFor is over.
//
// # Why a Secret of its own
//
// The pod could mount the Secrets that the configuration names. But then they would have to be in its namespace, and whole: a pod for one BMC would see the passwords of all. And the
// controller would have to tell what is secret among the parameters, of which agents have many. So the pod gets a request that has all it needs, and lives as long as
// the call. It is named after its Job and a random part: where a Job is made anew it cannot find what an older one was told.
//
// # RBAC
//
// In Namespace, besides what package fencing needs:
//
//	jobs (batch)   create, get, patch, delete
//	pods           list
//	secrets        create, delete
//
// The pods' own ServiceAccount needs nothing.
package fencejobs
