// Package apisim is an in-memory Kubernetes API server behind an http.RoundTripper, for tests in
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
// It behaves like the real server, because the cases of package conformance run on both. It serves
// resources of any kind (see [Resource]) to typed, dynamic and metadata clients in JSON, and the
// kinds that Kubernetes defines in Protocol Buffers to clients that ask for them, as they do by
// default (see [Client.PreferJSON]). It differs in these points:
//
//   - It validates metadata and the size of ConfigMaps, but neither specs nor whether a namespace exists.
//   - It sets no defaults, so a Pod has the grace period of its spec or none.
//   - It authorizes every user, also in the name of a Pod that is gone.
//   - It has no eviction and no subresource except the status.
//   - It collects garbage and forgets history only when the test calls [Server.Collect] and
//     [Server.Compact].
//
// # Inside a bubble
//
// Time passes in a bubble only while every goroutine in it is blocked on something of the bubble,
// so this package holds no mutex while it waits, and streams wait on channels and timers. Create
// server and clients inside the bubble.
package apisim
