package protocol

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CarriesMarks reports whether an object carries a label or annotation of the ring.
func (n Keys) CarriesMarks(o metav1.Object) bool {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	for _, key := range []string{n.Shard, n.Drain, n.Seal} {
		if _, ok := labels[key]; ok {
			return true
		}
	}
	_, ok := annotations[n.Record]
	return ok
}

// OwnerEpochs returns the epochs that may be at work on an object by its record.
func (n Keys) OwnerEpochs(o metav1.Object) []OwnerEpoch {
	r, ok := n.RecordOf(o)
	switch {
	case !ok:
		return nil
	case r.State == StateFree:
		return r.Left
	}
	return append([]OwnerEpoch{r.Owner()}, r.Left...)
}
