package apisim

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Collect runs the garbage collector of kube-controller-manager to its end, as if no other client
// wrote. It deletes objects that have lost their last owner, and ends deletions that wait until their
// dependents are gone (foreground) or released (orphan). Garbage is collected only by this call.
func (s *Server) Collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for before := int64(0); before != s.data.version; {
		before = s.data.version
		for _, k := range s.collectable() {
			switch o := s.data.objects[k]; {
			case o == nil: // went together with an earlier one
			case o.GetDeletionTimestamp() != nil:
				s.finish(k, o)
			case len(o.GetOwnerReferences()) > 0:
				s.collect(k, o)
			}
		}
	}
}

// collectable returns what may interest the collector, always in the same order, because
// simulations have to be repeatable.
func (s *Server) collectable() []key {
	var keys []key
	for k, o := range s.data.objects {
		if o.GetDeletionTimestamp() != nil || len(o.GetOwnerReferences()) > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name))
	})
	return keys
}

// collect deletes an object if each of its owners is gone or waits for the object to go. If another
// owner stays, so does the object, but without the references to the others, which would block
// owners that wait.
func (s *Server) collect(k key, o *Object) {
	var staying []metav1.OwnerReference
	awaited := false
	references := o.GetOwnerReferences()
	for _, r := range references {
		owner, resolved := s.owner(k, r)
		switch {
		case !resolved:
			return // it may be an owner that stays
		case owner == nil:
		case deletesDependents(owner):
			awaited = true
		default:
			staying = append(staying, r)
		}
	}
	switch len(staying) {
	case 0:
	case len(references):
		return
	default:
		s.amend(k, func(o *Object) { o.SetOwnerReferences(staying) })
		return
	}
	var options metav1.DeleteOptions
	if dependents := s.dependents(o.GetUID()); awaited && len(dependents) > 0 {
		if slices.ContainsFunc(dependents, func(d dependent) bool { return deletesDependents(d.object) }) {
			for i, r := range references { // or in a circle each would wait for the other
				if r.BlockOwnerDeletion != nil {
					references[i].BlockOwnerDeletion = new(bool)
				}
			}
			s.amend(k, func(o *Object) { o.SetOwnerReferences(references) })
		}
		foreground := metav1.DeletePropagationForeground
		options.PropagationPolicy = &foreground
	}
	_, _ = s.delete(s.targetOf(k), options)
}

// owner looks up an owner where the dependent k can have it, and returns nil if it is gone. It cannot
// resolve a kind that the server does not have, or a namespaced one of a cluster-scoped dependent.
func (s *Server) owner(k key, reference metav1.OwnerReference) (owner *Object, resolved bool) {
	i := slices.IndexFunc(s.resources, func(r Resource) bool {
		return r.GroupVersion().String() == reference.APIVersion && r.Kind == reference.Kind
	})
	if i < 0 || s.resources[i].Namespaced && k.namespace == "" {
		return nil, false
	}
	at := key{resource: s.resources[i].GroupResource(), name: reference.Name}
	if s.resources[i].Namespaced {
		at.namespace = k.namespace
	}
	if o := s.data.objects[at]; o != nil && o.GetUID() == reference.UID {
		return o, true
	}
	return nil, true
}

// finish ends a deletion that waits for the collector. Other finalizers may still hold it.
func (s *Server) finish(k key, o *Object) {
	dependents := s.dependents(o.GetUID())
	finalizer := metav1.FinalizerOrphanDependents
	switch {
	case slices.Contains(o.GetFinalizers(), finalizer):
		for _, d := range dependents {
			s.amend(d.key, func(d *Object) {
				d.SetOwnerReferences(without(d.GetOwnerReferences(),
					func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }))
			})
		}
	case deletesDependents(o) && !slices.ContainsFunc(dependents, func(d dependent) bool { return d.blocks }):
		finalizer = metav1.FinalizerDeleteDependents
	default:
		return
	}
	s.amend(k, func(o *Object) {
		o.SetFinalizers(without(o.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}

func deletesDependents(o *Object) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// dependent is an object with a reference to some owner, whose deletion it may block.
type dependent struct {
	key    key
	object *Object
	blocks bool
}

// dependents goes by the UID alone. Whether a reference is right is checked when it is the
// dependent's turn.
func (s *Server) dependents(owner types.UID) []dependent {
	var found []dependent
	for _, k := range s.collectable() {
		for _, r := range s.data.objects[k].GetOwnerReferences() {
			if r.UID == owner {
				found = append(found,
					dependent{k, s.data.objects[k], r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion})
			}
		}
	}
	return found
}

// without returns nil rather than an empty list, which the object would keep.
func without[T any](list []T, drop func(T) bool) (rest []T) {
	for _, e := range list {
		if !drop(e) {
			rest = append(rest, e)
		}
	}
	return rest
}

// amend changes an object like a client's update. If the update is refused, the object does not
// change.
func (s *Server) amend(k key, change func(*Object)) {
	old := s.data.objects[k]
	o := old.copy()
	change(o)
	_, _ = s.replace(s.targetOf(k), old, o, false)
}

func (s *Server) targetOf(k key) target {
	i := slices.IndexFunc(s.resources, func(r Resource) bool { return r.GroupResource() == k.resource })
	return target{Resource: s.resources[i], namespace: k.namespace, name: k.name}
}
