// Package chaos has a sharded controller go through everything at once that its guarantees are about, on a real control plane, and judges
// it.
//
// Four shards, each a process, own 2,000 objects, a third of which have a child that the controller creates; they write checksums.
// Users create, change, replace and delete objects all the time, and edit the ring's labels and records. Replicas are killed, stopped,
// restarted under the same and under new names, and cut off; the API server and etcd are restarted and killed. Then everything heals, and
// within three lease durations, one scan and 30 s every object has to have a living owner and the right checksum, with its child beside it.
//
// Two referees know nothing of each other:
//
//   - By the journals of the replicas, which note when work begins and when it ends, on the clock of the machine, no two processes are at work
//     on an object and its children at the same time. All shards have KernelDeadline, so that a stopped one is dead before others begin.
//   - By all versions of the objects, read from etcd, nobody has written at work on what was not its own, in its present epoch. Who wrote is
//     said by the audit log, as the user, and once more by a signature on the object, because an API server that is killed
//     may not have logged its last writes. Whose an object is follows from its last valid record: users remove those, but do not
//     change who may be at work.
//
// What is not guaranteed is not played: forged records, restored backups, and requests that arrive after their process has died, because
// the network or the API server has held them back. Nor are labels removed of children that the API server has named: whoever
// cannot see such a child creates another.
//
// Builds of the library in which one line is missing have to be caught.
//
// A seed repeats the decisions of a run, not its timing: BELLWETHER_CHAOS_SEED. BELLWETHER_SOAK says for how long things go wrong.
package chaos
