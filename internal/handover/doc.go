// Package handover notes up to which version a term has written each resource, so that the next
// term can wait until its caches show that.
//
// A [Log] belongs to a term. It notes every write before that is sent, and then its outcome. At the
// release, [Log.Versions] goes into the record of the lease, and the next term's log begins with
// it.
//
// A version is known only if it is above those of all writes of the term, and of the terms before.
// These make it unknown:
//
//   - a write without an answer, until the end of the term, because it may be carried out late;
//   - an answer without the version of the write, as that to a deletion. A write that was sent
//     later and has created an object makes it known again, but an update does not, because one
//     that changes nothing is answered with the version of an older write;
//   - a request whose resource cannot be read from its path, and a term that did not leave its
//     versions. A consistent list that a later term has made makes a resource known again.
package handover
