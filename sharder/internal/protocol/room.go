package protocol

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// annotationBytes is the size of an object's annotations as the API server counts it, without the
// record of the ring.
func (n Keys) annotationBytes(o metav1.Object) (size int) {
	for key, value := range o.GetAnnotations() {
		if key != n.Record {
			size += len(key) + len(value)
		}
	}
	return size
}

// RoomFor returns an error if an object has no room for this record once a drain has named the next
// owner in it, because an object that could not be drained must not be assigned.
func (n Keys) RoomFor(o Root, r Record) error {
	r.Next = &OwnerEpoch{
		Shard: strings.Repeat("x", 63), LeaseUID: types.UID(strings.Repeat("x", 36)), Epoch: math.MaxInt64,
	}
	need := len(n.Record) + len(r.Encode())
	if size := o.annotationBytes + need; size > validation.TotalAnnotationSizeLimitB {
		return fmt.Errorf("annotations: must leave %d bytes of %d for the record of the owner (have %d)", need,
			validation.TotalAnnotationSizeLimitB, validation.TotalAnnotationSizeLimitB-o.annotationBytes)
	}
	return nil
}
