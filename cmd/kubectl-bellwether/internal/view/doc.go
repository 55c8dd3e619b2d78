// Package view decides what to show a person of elections, rings, endpoints and fences, and what a
// change of a ring would move. Its functions take the time and values that were read from the API
// server, and send no request.
//
// # Ages are hints
//
// Nothing here is proof. A view is made from one read, so the state of a shard is what
// shardstate.Tracker would report if this machine's clock agreed with the one that wrote the Lease.
// A sharder never relies on that, because it waits by its own clock. Neither do commands that
// write: uninstall lets the sharder's own code prove that each shard has ended.
package view
