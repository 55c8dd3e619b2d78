package sharder

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// marks reports whether an object carries anything of the ring.
func (n names) marks(o metav1.Object) bool {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	for _, key := range []string{n.shard, n.drain, n.seal} {
		if _, ok := labels[key]; ok {
			return true
		}
	}
	for _, key := range []string{n.owner, n.record} {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// tenants returns those who may be at work on an object by its record.
func (n names) tenants(o metav1.Object) []tenant {
	r, ok := n.recordOf(o)
	switch {
	case !ok:
		return nil
	case r.State == free:
		return r.Left
	}
	return append([]tenant{r.tenant()}, r.Left...)
}
