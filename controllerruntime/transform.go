package controllerruntime

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// transformed is an informer whose transform keeps what fresh.Wait needs: every object, with its version.
type transformed struct{ toolscache.SharedIndexInformer }

// SetTransform implements cache.SharedInformer.
func (i transformed) SetTransform(transform toolscache.TransformFunc) error {
	if transform == nil {
		return i.SharedIndexInformer.SetTransform(nil)
	}
	return i.SharedIndexInformer.SetTransform(keepVersion(transform))
}

// keepVersion returns a transform that keeps the resourceVersion and does not return nil, because
// client-go drops a whole list with one nil object.
func keepVersion(transform toolscache.TransformFunc) toolscache.TransformFunc {
	return func(before any) (any, error) {
		object, ok := before.(metav1.Object)
		if !ok {
			return transform(before)
		}
		version := object.GetResourceVersion()
		after, err := transform(before)
		if err == nil && after == nil {
			after = before
		}
		if object, ok := after.(metav1.Object); ok && err == nil {
			object.SetResourceVersion(version)
		}
		return after, err
	}
}
