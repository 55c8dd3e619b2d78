// Package admission fences a leader on the API server. [Policy] builds a ValidatingAdmissionPolicy
// by which the API server denies writes of all replicas except the leader. [PodIdentity] returns
// the Identity that a replica's leaderelection.Config needs for it.
//
// It is a package of its own because it imports API groups that an elector does not need.
package admission
