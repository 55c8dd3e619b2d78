// Package protocol decides who may work on an object of a ring. It is pure: it reads objects, records and versions, and
// returns what is to be done. It sends nothing, waits for nothing and knows no client.
//
// For the assigner, [Decide] says what follows from a [Situation]. For a shard, [Self] says what a version of an object means
// to it, and [Handover] what it does next about an object that it is asked to let go of. [Record] is the format of the owner
// annotation, [History] that of the ConfigMap of the ring.
package protocol
