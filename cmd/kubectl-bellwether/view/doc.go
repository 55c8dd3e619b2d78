// Package view decides what a person is shown of elections, rings, endpoints and fences, and what a
// change of a ring would move. Its functions take values that were read from the API server and the
// time. They send no request.
//
// # Ages are hints
//
// Nothing here is proof. A view is made from one read. So the state of a shard is what
// shardstate.Tracker would say if this machine's clock agreed with the one that wrote the Lease. A
// sharder never relies on that: it waits by its own clock. Neither does what writes: uninstall lets
// the sharder's own code prove that each shard has ended.
package view
