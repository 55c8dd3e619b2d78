// Package realnode runs nodes with a real kubelet, containerd, runc and kube-proxy beside the
// control plane of package e2e, and breaks them: power, network, kernel, kubelet.
//
// A [Node] is a set of namespaces (network, mounts, processes, host name, control groups) with a
// disk of its own, which is a directory. What happens to it happens to a whole machine:
//
//   - [Node.Off] ends everything in it at one moment, and [Node.On] boots it from the same disk;
//   - [Node.Freeze] stops every process in it, and [Node.Thaw] lets them go on;
//   - [Node.Cut] pulls its network cable, and [Node.Heal] puts it back;
//   - [Node.StopKubelet] kills the kubelet alone, and [Node.StartKubelet] starts it again.
//
// The tests also run in namespaces: [Main] executes the test binary again as the first process of
// new ones. So they see the network of the nodes, and nothing of it is seen outside. When the test
// ends, by SIGKILL too, the kernel ends everything in there, and a shell that waits for that removes
// control groups and files.
//
// Images are written by Go: one static program each, no registry. Pods have addresses of their own,
// Services are those of kube-proxy.
//
// It takes Linux, root, control groups of version 1, and the Debian packages that [Missing] names.
// Where they are missing, tests are skipped ([Cluster.Need]).
//
// What it cannot show: a kernel that crashes (all nodes have one kernel, and one clock), disks that
// lose writes, more than one architecture, systemd's graceful shutdown of nodes.
package realnode
