// Package chaos runs a sharded controller on a real control plane under all the faults of its
// guarantees at once, and judges it.
//
// Four shards, each a process, own 2,000 objects and write checksums. The controller creates a
// child for a third of the objects. Users create, change, replace and delete objects all the time,
// and edit the ring's labels and records. Replicas are killed, stopped, restarted under the same
// and under new names, and cut off. The API server and etcd are restarted and killed. Then all
// faults end. Within three lease durations, one scan and 30 s every object has to have a living
// owner and the right checksum, with its child beside it.
//
// Two referees judge independently:
//
//   - The first reads the journals of the replicas, which record when work begins and ends, on the
//     clock of the machine. No two processes may work on an object and its children at the same
//     time. All shards have KernelDeadline, so that a stopped one is dead before others begin.
//   - The second reads all versions of the objects from etcd. The work of a shard may write only to
//     objects that it owns in its present epoch. The writer is the user in the audit log. It is
//     also in a signature on the object, because an API server that is killed may not have logged
//     its last writes. The owner of an object follows from its last valid record: users remove
//     records, but that does not change which shard may work.
//
// The run leaves out what is not guaranteed: forged records, restored backups, and requests that
// the network or the API server delays until after the death of their process. It also removes no
// labels of children with generated names: a shard that cannot see such a child creates another.
//
// Builds of the library with one line missing have to be caught.
//
// A seed repeats the decisions of a run, not its timing: BELLWETHER_CHAOS_SEED. BELLWETHER_SOAK is
// how long the faults last.
package chaos
