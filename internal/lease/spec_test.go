package lease

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSameSpec(t *testing.T) {
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	full := coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To(int32(15)), AcquireTime: &at, RenewTime: &at,
		LeaseTransitions: ptr.To(int32(1)), Strategy: ptr.To(coordinationv1.OldestEmulationVersion),
		PreferredHolder: ptr.To("b"),
	}
	elsewhere := full.DeepCopy()
	elsewhere.RenewTime = ptr.To(metav1.NewMicroTime(at.In(time.FixedZone("", 3600))))
	assert.True(t, SameSpec(&full, elsewhere), "the zone is not stored")
	assert.True(t, SameSpec(&coordinationv1.LeaseSpec{}, &coordinationv1.LeaseSpec{}))

	fields := reflect.TypeFor[coordinationv1.LeaseSpec]()
	for i := range fields.NumField() {
		without, empty := full.DeepCopy(), full.DeepCopy()
		field := reflect.ValueOf(without).Elem().Field(i)
		assert.False(t, field.IsZero(), "the test does not know %s", fields.Field(i).Name)
		field.SetZero()
		assert.False(t, SameSpec(&full, without), "without %s", fields.Field(i).Name)
		reflect.ValueOf(empty).Elem().Field(i).Set(reflect.New(field.Type().Elem()))
		assert.False(t, SameSpec(&full, empty), "with an empty %s", fields.Field(i).Name)
		if _, isTime := field.Interface().(*metav1.MicroTime); !isTime { // no record has a zero time
			assert.False(t, SameSpec(without, empty), "without %s and with an empty one", fields.Field(i).Name)
		}
	}
}
