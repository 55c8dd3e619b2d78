// Package apisim is a Kubernetes API server in memory, behind an http.RoundTripper, for tests in virtual time: the real client
// libraries and the real code of all replicas run on it inside one bubble of testing/synctest.
//
//	synctest.Test(t, func(t *testing.T) {
//		server := apisim.NewServer()
//		a, b := server.Client("a"), server.Client("b")
//		client, err := kubernetes.NewForConfig(a.Config())
//		...
//		b.Inject(apisim.Faults{Latency: time.Second, LoseResponse: apisim.Always}) // until told otherwise
//	})
//
// What it does it does as the real server: the cases of package conformance run on both. It knows resources of any kind
// (see [Resource]), typed, dynamic and metadata clients; JSON only. It validates metadata and the size of ConfigMaps, not
// specs, does not ask whether a namespace exists, sets no defaults (a Pod has the grace period that it says, or none) and
// authorizes everybody, also in the name of a Pod that is gone. There is no eviction and no other subresource than the status. Garbage is collected and
// history forgotten when the test says so ([Server.Collect], [Server.Compact]).
//
// # Inside a bubble
//
// Time passes in a bubble only while every goroutine in it is blocked on something of the bubble. So nothing here holds a
// mutex while it waits, and streams wait on channels and timers. Create server and clients inside the bubble.
package apisim
