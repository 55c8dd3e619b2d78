// Package e2e runs a real Kubernetes control plane on one machine and breaks it on purpose.
//
// A [ControlPlane] is etcd and kube-apiserver, on request kube-controller-manager, kube-scheduler
// and nodes played by KWOK, all as processes of this machine on loopback ports. Nothing has to be
// installed but Go: the programs are built once from the module in controlplane/ (see [Binaries])
// and kept in the user's cache directory. Concurrent test packages share that build, never a
// server.
//
// What can be broken:
//
//   - every [Process], of the control plane or started with [ControlPlane.Run]: paused (SIGSTOP),
//     killed, ended, restarted. etcd and the API server come back on their old ports with their old
//     data;
//   - every client's connection to the API server: a [Proxy] per client cuts, delays or swallows
//     its traffic;
//   - what the servers remember of the past: [ControlPlane.Compact].
//
// What tells right from wrong: users are client certificates minted on demand with no rights until
// granted ([ControlPlane.User], [ControlPlane.Grant]) or Pods with tokens
// ([ControlPlane.ServiceAccount]), and the API server's audit log ([ControlPlane.Audit]) says which
// user did what. [ControlPlane.Versions] shows every version of the objects, in the order in which
// they were stored, whatever restarts meanwhile.
//
//	func TestCreates(t *testing.T) {
//		cp := e2e.Start(t, e2e.Options{})
//		client := kubernetes.NewForConfigOrDie(cp.Admin())
//		namespace, err := cp.Namespace(t.Context(), "creates")
//		require.NoError(t, err)
//		_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
//		require.NoError(t, err)
//	}
//
// Everything ends with the process that started it, however that one ends: see [Group].
//
// Not guaranteed: durability when the machine goes down (etcd does not sync its writes), and any
// likeness of performance with a cluster on machines of its own. Linux and macOS only: the harness
// lives on signals, process groups and SO_REUSEPORT.
package e2e
