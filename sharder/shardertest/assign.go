// Package shardertest is for the tests of sharded controllers that run on client-go's fakes, where
// no sharder is.
package shardertest

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Assign writes into obj, which has still to be created or updated, what the sharder would: that it
// belongs to the shard of a lease, which has to be held, as all of its children do, which are of
// these resources. On a cluster that is for the sharder alone to do: two shards would work on the
// object.
func Assign(lease *shardlease.Lease, obj metav1.Object, children ...schema.GroupVersionResource) error {
	term, err := lease.Term()
	if err != nil {
		return fmt.Errorf("shardertest: %w", err)
	}
	floor := map[string]string{}
	for _, gvr := range children {
		floor[gvr.GroupResource().String()] = ""
	}
	record, err := json.Marshal(struct {
		UID        types.UID         `json:"uid"`
		Shard      string            `json:"shard"`
		LeaseUID   types.UID         `json:"leaseUID"`
		Epoch      int64             `json:"epoch"`
		State      string            `json:"state"`
		ChildFloor map[string]string `json:"childFloor"`
	}{obj.GetUID(), lease.Identity(), term.Epoch().LeaseUID, term.Epoch().Number, "owned", floor})
	if err != nil {
		return fmt.Errorf("shardertest: %w", err)
	}
	obj.SetLabels(with(obj.GetLabels(), api.ShardLabel(lease.Ring()), lease.Identity()))
	obj.SetAnnotations(with(obj.GetAnnotations(), api.OwnerAnnotation(lease.Ring()), string(record)))
	return nil
}

// Drain writes into obj, which was assigned to a shard, what the sharder would that wants it for
// another one: the shard is to let go of it.
func Drain(lease *shardlease.Lease, obj metav1.Object) {
	obj.SetLabels(with(obj.GetLabels(), api.DrainLabel(lease.Ring()), "true"))
}

func with(all map[string]string, key, value string) map[string]string {
	changed := map[string]string{key: value}
	for k, v := range all {
		if k != key {
			changed[k] = v
		}
	}
	return changed
}
