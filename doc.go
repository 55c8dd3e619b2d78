// Package bellwether is a toolkit for Kubernetes controllers that run in several replicas. It is empty: each primitive is a
// package of its own, to be used alone.
//
//   - [github.com/bellwether-k8s/bellwether/leaderelection]: one active replica, elected by a Lease. A leader that cannot
//     renew ends its process before anyone else starts.
//   - [github.com/bellwether-k8s/bellwether/leaderforlife]: one active Pod, which leads until it is proven to have ended.
//   - [github.com/bellwether-k8s/bellwether/sharder]: several active replicas, each on its own part of the objects, which it
//     assigns by labels.
//   - [github.com/bellwether-k8s/bellwether/sharder/replica]: all parts of such a replica, made from one client configuration.
//   - [github.com/bellwether-k8s/bellwether/shardlease]: the heartbeat of such a replica.
//   - [github.com/bellwether-k8s/bellwether/endpoints]: the live instances of a server behind a Service, published by themselves.
//   - [github.com/bellwether-k8s/bellwether/fencing]: lost nodes, whose machines are switched off so that their workloads come up elsewhere.
//   - [github.com/bellwether-k8s/bellwether/ring]: consistent hashing, by which it is decided who gets what.
//
// Pages for users are in docs/: guarantees, embedding, operating, fencing, migrating. Programs that put the packages to use are in
// examples/. How they are proven is in internal/: e2e runs real processes against a real control plane and breaks both; apisim is an API
// server in memory for tests in virtual time, held to the real one by a table of cases that runs on both.
//
// # Common to all packages
//
// New takes a client and a Config by value, whose zero fields have documented defaults, and refuses bad values with one error
// that names every field, rule and value. Run blocks, and has joined all its goroutines when it returns; it returns nil
// when its context ended normally. Nothing builds clients but sharder/replica, and leaderforlife if it is given none; nothing reads flags, or keeps
// state outside of what New returned. Logs go to a *zap.Logger, to none if it is nil.
//
// Whether a record of somebody else has expired is decided by how long it has been seen unchanged on the own monotonic
// clock. Clocks of two machines are never compared.
package bellwether
