package protocol

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAssignmentOfARoot(t *testing.T) {
	n := KeysOf("r").Of(ringtest.ConfigMaps.GroupResource())
	me := Self{Keys: n, OwnerEpoch: OwnerEpoch{Shard: "a", LeaseUID: "l", Epoch: 3}}
	mine := Record{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 3, State: StateOwned}
	but := func(change func(*Record)) string {
		r := mine
		change(&r)
		return r.Encode()
	}
	for name, test := range map[string]struct {
		label, drain, record string
		want                 Assignment
	}{
		"mine":          {"a", "", mine.Encode(), AssignedHere},
		"mine, drained": {"a", "true", mine.Encode(), AssignedDraining},
		"mine, still to be probed": {
			"a", "true", but(func(r *Record) { r.Left = []OwnerEpoch{{Shard: "b", LeaseUID: "m", Epoch: 1}} }),
			AssignedDraining,
		},
		"another shard's":              {"b", "", but(func(r *Record) { r.Shard = "b" }), AssignedElsewhere},
		"unassigned":                   {"", "", "", AssignedElsewhere},
		"label removed":                {"", "", mine.Encode(), AssignedElsewhere},
		"label of another shard":       {"b", "", mine.Encode(), AssignedElsewhere},
		"label only":                   {"a", "", "", AssignedUnrecorded},
		"label only, drained":          {"a", "true", "", AssignedUnrecorded},
		"record unreadable":            {"a", "", "{", AssignedUnrecorded},
		"record of another object":     {"a", "", but(func(r *Record) { r.UID = "v" }), AssignedUnrecorded},
		"record of another shard":      {"a", "", but(func(r *Record) { r.Shard = "b" }), AssignedUnrecorded},
		"acknowledged, labelled again": {"a", "", but(func(r *Record) { r.State = StateFree }), AssignedUnrecorded},
		"earlier epoch":                {"a", "", but(func(r *Record) { r.Epoch = 2 }), AssignedFormerEpoch},
		"later epoch":                  {"a", "", but(func(r *Record) { r.Epoch = 4 }), AssignedFormerEpoch},
		"earlier lease":                {"a", "", but(func(r *Record) { r.LeaseUID = "k" }), AssignedFormerEpoch},
		"earlier epoch, drained":       {"a", "true", but(func(r *Record) { r.Epoch = 2 }), AssignedFormerEpoch},
	} {
		o := &metav1.ObjectMeta{UID: "u", Labels: map[string]string{}, Annotations: map[string]string{}}
		for key, value := range map[string]string{n.Shard: test.label, n.Drain: test.drain} {
			if value != "" {
				o.Labels[key] = value
			}
		}
		if test.record == "" {
			assert.Equal(t, test.want, me.AssignmentOf(o), name)
			continue
		}
		o.Annotations[n.Record], o.Labels[n.Seal] = test.record, SealOf(test.record)
		assert.Equal(t, test.want, me.AssignmentOf(o), name)
		if test.want != AssignedElsewhere {
			o.Labels[n.Seal] = SealOf(test.record + " ")
			assert.Equal(t, AssignedUnrecorded, me.AssignmentOf(o), "%s, but sealed for another record", name)
			delete(o.Labels, n.Seal)
			assert.Equal(t, AssignedUnrecorded, me.AssignmentOf(o), "%s, but without a seal", name)
		}
	}
}
