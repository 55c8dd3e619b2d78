// Package protocol decides who may work on an object of a ring. It is pure: it reads objects,
// records and versions, and returns what to do, but sends nothing, waits for nothing and has no
// client.
//
// For the assigner, [Decide] turns a [Situation] into a [Decision]. For a shard, [Self] returns the
// [Assignment] of a version of an object, and [Handover] the next step of a drain. [Record] is the
// format of the owner annotation, [History] that of the ring's ConfigMap.
package protocol
