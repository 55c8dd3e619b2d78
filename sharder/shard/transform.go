package shard

import (
	"maps"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// preserveRecord returns a transform that keeps what a shard needs of an object, and the labels
// that the selector reads. The transform does not return nil, because client-go drops a list with
// one nil object, and with it all other objects.
func preserveRecord(n protocol.Keys, selector labels.Selector, transform cache.TransformFunc) cache.TransformFunc {
	needed := []string{n.Shard, n.Drain, n.Seal}
	if selector != nil {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			needed = append(needed, r.Key())
		}
	}
	return func(obj any) (any, error) {
		before, ok := obj.(metav1.Object)
		if !ok {
			return transform(obj)
		}
		uid, version := before.GetUID(), before.GetResourceVersion()
		marks := entries(before.GetLabels(), needed...)
		annotations := entries(before.GetAnnotations(), n.Record)
		whole := obj
		obj, err := transform(obj)
		if err == nil && obj == nil {
			obj = whole
		}
		if after, ok := obj.(metav1.Object); ok && err == nil {
			after.SetUID(uid)
			after.SetResourceVersion(version)
			after.SetLabels(restored(after.GetLabels(), marks))
			after.SetAnnotations(restored(after.GetAnnotations(), annotations))
		}
		return obj, err
	}
}

// preserveOwner returns a transform that keeps a child's controller owner reference, or all owner
// references of a child without a controller.
func preserveOwner(transform cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		before, ok := obj.(metav1.Object)
		if !ok {
			return transform(obj)
		}
		owners := slices.Clone(before.GetOwnerReferences())
		if controller := metav1.GetControllerOf(before); controller != nil {
			owners = []metav1.OwnerReference{*controller}
		}
		obj, err := transform(obj)
		if after, ok := obj.(metav1.Object); ok && err == nil && metav1.GetControllerOfNoCopy(after) == nil {
			kept := after.GetOwnerReferences()
			for _, owner := range owners {
				if !slices.ContainsFunc(kept, func(r metav1.OwnerReference) bool {
					return r.UID == owner.UID && ptr.Deref(r.Controller, false) == ptr.Deref(owner.Controller, false)
				}) {
					kept = append(kept, owner)
				}
			}
			after.SetOwnerReferences(kept)
		}
		return obj, err
	}
}

// entries returns the entries of a map with these keys.
func entries(all map[string]string, keys ...string) map[string]string {
	found := map[string]string{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			found[key] = value
		}
	}
	return found
}

// restored returns a map with the kept entries put back. It changes neither argument.
func restored(all, kept map[string]string) map[string]string {
	if len(kept) == 0 {
		return all
	}
	merged := map[string]string{}
	maps.Copy(merged, all)
	maps.Copy(merged, kept)
	return merged
}
