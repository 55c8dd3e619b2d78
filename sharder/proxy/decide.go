package proxy

import "k8s.io/apimachinery/pkg/runtime/schema"

// role is what the ring makes of a resource.
type role int

const (
	outside role = iota // not in the ring
	root                // its objects are distributed
	child               // its objects follow their root, if they have one
)

// action is what the proxy does with a request.
type action int

const (
	// pass sends the request as it is. Marks are hidden in the answer if it is about the ring.
	pass action = iota
	// selectOwn adds the shard's selector.
	selectOwn
	// do sends the request within Shard.Do, for the object that it names.
	do
	// stamp sends the request within Shard.Do, for the root of the child that it creates.
	stamp
	// doEach deletes the objects of a collection one by one, each within Shard.Do.
	doEach
	// refuse answers that the verb is unknown.
	refuse
)

// decide returns the action for a request about a resource with this role.
func decide(q request, r role) action {
	switch q.verb {
	case "get", "connect", "":
		return pass
	case "list", "watch", "deletecollection", "create", "update", "patch", "delete":
	default:
		return refuse
	}
	if r == outside {
		return pass
	}
	switch q.verb {
	case "list", "watch":
		return selectOwn
	case "deletecollection":
		return doEach
	case "create":
		switch {
		case q.subresource != "": // such as an eviction, of an object that exists
			return do
		case r == child:
			return stamp
		}
		return pass
	}
	return do
}

// roles maps resources, in any version, to their roles.
type roles map[schema.GroupResource]role
