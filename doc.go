// Package bellwether is a toolkit for Kubernetes controllers that run in several replicas. The
// package itself is empty: each primitive is a package of its own and can be used alone.
//
//   - [github.com/bellwether-k8s/bellwether/leaderelection]: one active replica, elected by a
//     Lease. A leader that cannot renew ends its process before a successor starts.
//   - [github.com/bellwether-k8s/bellwether/leaderforlife]: one active Pod, which leads until it
//     has provably ended.
//   - [github.com/bellwether-k8s/bellwether/sharder]: several active replicas, each with its share
//     of the objects, assigned by labels.
//   - [github.com/bellwether-k8s/bellwether/sharder/replica]: all parts of such a replica, made
//     from one client configuration.
//   - [github.com/bellwether-k8s/bellwether/shardlease]: the heartbeat of such a replica.
//   - [github.com/bellwether-k8s/bellwether/endpoints]: the live instances of a server behind a
//     Service, published by themselves.
//   - [github.com/bellwether-k8s/bellwether/fencing]: switches the machines of lost nodes off, so
//     that their workloads start elsewhere.
//   - [github.com/bellwether-k8s/bellwether/fresh]: a new leader waits until its warm caches have caught up.
//   - [github.com/bellwether-k8s/bellwether/ring]: consistent hashing, which decides the owner of a
//     key.
//
// Pages for users are in docs/ (guarantees, embedding, operating, fencing, migrating), example
// programs in examples/ and the proofs in internal/: e2e runs real processes on a real control
// plane and breaks both, while apisim is an in-memory API server for tests in virtual time. One
// table of cases runs on it and on a real API server.
//
// # Common to all packages
//
//   - New takes a client and a Config by value. Zero fields have documented defaults. New rejects
//     bad values with one error that names every field, rule and value.
//   - Run blocks, and all its goroutines have ended when it returns. It returns nil if its context
//     ended normally.
//   - Only sharder/replica builds clients, and leaderforlife if you pass none. No package reads
//     flags or keeps state outside what New returned.
//   - Logs go to a *zap.Logger; a nil one logs nothing.
//   - A foreign record has expired when it has been seen unchanged for long enough on the local
//     monotonic clock. Clocks of two machines are never compared.
package bellwether
