// Package apisim is a Kubernetes API server in memory, behind an http.RoundTripper, for tests in
// virtual time. The real client libraries and the real code of all replicas run on it inside one
// bubble of testing/synctest.
//
//	synctest.Test(t, func(t *testing.T) {
//		server := apisim.NewServer()
//		a, b := server.Client("a"), server.Client("b")
//		client, err := kubernetes.NewForConfig(a.Config())
//		...
//		b.Inject(apisim.Faults{Latency: time.Second, LoseResponse: apisim.Always}) // until the next Inject
//	})
//
// It behaves like the real server: the cases of package conformance run on both. It serves
// resources of any kind (see [Resource]) to typed, dynamic and metadata clients, in JSON. What
// Kubernetes defines it serves in Protocol Buffers to clients that ask for them, as they do by default
// (see [Client.PreferJSON]).
//
//   - It validates metadata and the size of ConfigMaps, not specs, nor whether a namespace exists.
//   - It sets no defaults. A Pod has the grace period that its spec says, or none.
//   - It authorizes every user, also in the name of a Pod that is gone.
//   - It has no eviction, and no other subresource than the status.
//   - It collects garbage and forgets history only when the test calls [Server.Collect] and
//     [Server.Compact].
//
// # Inside a bubble
//
// Time passes in a bubble only while every goroutine in it is blocked on something of the bubble.
// So this package holds no mutex while it waits, and streams wait on channels and timers. Create
// server and clients inside the bubble.
package apisim
