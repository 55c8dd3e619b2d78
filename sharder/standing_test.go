package sharder

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStandingOfARoot(t *testing.T) {
	n := namesOf("r").of(configMaps.GroupResource())
	me := claimant{names: n, tenant: tenant{Shard: "a", LeaseUID: "l", Epoch: 3}}
	mine := record{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 3, State: owned}
	but := func(change func(*record)) string {
		r := mine
		change(&r)
		return r.encode()
	}
	for name, test := range map[string]struct {
		label, drain, record string
		want                 standing
	}{
		"mine":                         {"a", "", mine.encode(), assigned},
		"mine, drained":                {"a", "true", mine.encode(), drained},
		"mine, still to be probed":     {"a", "true", but(func(r *record) { r.Left = []tenant{{Shard: "b", LeaseUID: "m", Epoch: 1}} }), drained},
		"another shard's":              {"b", "", but(func(r *record) { r.Shard = "b" }), elsewhere},
		"unassigned":                   {"", "", "", elsewhere},
		"label removed":                {"", "", mine.encode(), elsewhere},
		"label of another shard":       {"b", "", mine.encode(), elsewhere},
		"label only":                   {"a", "", "", stray},
		"label only, drained":          {"a", "true", "", stray},
		"record unreadable":            {"a", "", "{", stray},
		"record of another object":     {"a", "", but(func(r *record) { r.UID = "v" }), stray},
		"record of another shard":      {"a", "", but(func(r *record) { r.Shard = "b" }), stray},
		"acknowledged, labelled again": {"a", "", but(func(r *record) { r.State = free }), stray},
		"earlier epoch":                {"a", "", but(func(r *record) { r.Epoch = 2 }), outdated},
		"later epoch":                  {"a", "", but(func(r *record) { r.Epoch = 4 }), outdated},
		"earlier lease":                {"a", "", but(func(r *record) { r.LeaseUID = "k" }), outdated},
		"earlier epoch, drained":       {"a", "true", but(func(r *record) { r.Epoch = 2 }), outdated},
	} {
		o := &metav1.ObjectMeta{UID: "u", Labels: map[string]string{}, Annotations: map[string]string{}}
		for key, value := range map[string]string{n.shard: test.label, n.drain: test.drain} {
			if value != "" {
				o.Labels[key] = value
			}
		}
		if test.record != "" {
			o.Annotations[n.owner] = test.record
		}
		assert.Equal(t, test.want, me.standing(o), "%s, written by v0.1", name)
		if test.record == "" {
			continue
		}
		o.Annotations[n.record], o.Labels[n.seal] = test.record, sealOf(test.record)
		assert.Equal(t, test.want, me.standing(o), name)
		if test.want != elsewhere {
			o.Labels[n.seal] = sealOf(test.record + " ")
			assert.Equal(t, stray, me.standing(o), "%s, but sealed for another record", name)
			delete(o.Labels, n.seal)
			assert.Equal(t, stray, me.standing(o), "%s, but without a seal", name)
		}
	}
}
