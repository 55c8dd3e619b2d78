package shardertest

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// Assign gives a root to the shard, as the sharder does. It creates the root if it does not exist;
// otherwise it changes nothing but labels and annotations. It leaves children alone, so a test that
// gives them the label of another shard must also give them that of this one. Call it while the
// lease is held. Afterwards root is as stored.
func (r *Ring) Assign(root shard.Object) {
	r.t.Helper()
	if err := r.assign(root); err != nil {
		r.t.Fatalf("shardertest: Assign: %v", err)
	}
}

// Drain asks the shard to let go of a root that was assigned to it, as the sharder does to move it
// to another shard. Afterwards root is as stored.
func (r *Ring) Drain(root shard.Object) {
	r.t.Helper()
	err := r.objects.read(root)
	if err == nil {
		root.SetLabels(with(root.GetLabels(), api.DrainLabel(r.Lease.Ring()), protocol.DrainValue))
		err = r.objects.replace(root)
	}
	if err != nil {
		r.t.Fatalf("shardertest: Drain: %v", err)
	}
}

func (r *Ring) assign(root shard.Object) error {
	gvr, err := r.objects.resourceOf(root)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.config.Resources, func(known api.Resource) bool { return known.GVR == gvr })
	if i < 0 {
		return fmt.Errorf("%s is not the GVR of one of Config.Resources", gvr.String())
	}
	switch of := r.config.Resources[i]; {
	case of.Selector != nil && !of.Selector.Matches(labels.Set(root.GetLabels())):
		return fmt.Errorf("the Selector of %s does not select it: a sharder would not see it (got labels %v)",
			gvr.String(), root.GetLabels())
	case len(of.Namespaces) > 0 && !slices.Contains(of.Namespaces, root.GetNamespace()):
		return fmt.Errorf("the Namespaces of %s are %q: a sharder would not see it (got %q)", gvr.String(),
			of.Namespaces, root.GetNamespace())
	}
	switch err := r.objects.read(root); {
	case apierrors.IsNotFound(err):
		if err := r.objects.create(root); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	record, err := r.ownerRecord(root.GetUID(), r.config.Resources[i].Children)
	if err != nil {
		return err
	}
	ring := r.Lease.Ring()
	labels := with(root.GetLabels(), api.ShardLabel(ring), r.Lease.Identity())
	root.SetLabels(with(labels, api.SealLabel(ring), protocol.SealOf(record)))
	root.SetAnnotations(with(root.GetAnnotations(), api.RecordAnnotation(ring, gvr.GroupResource()), record))
	return r.objects.replace(root)
}

// ownerRecord returns the record of a root of this shard, whose children are this shard's.
func (r *Ring) ownerRecord(root types.UID, children []schema.GroupVersionResource) (string, error) {
	term, err := r.Lease.Term()
	if err != nil {
		return "", fmt.Errorf("the shard has to hold its lease: %w", err)
	}
	floor := map[string]string{}
	for _, child := range children {
		floor[child.GroupResource().String()] = ""
	}
	return protocol.Record{
		UID: root, Shard: r.Lease.Identity(), LeaseUID: term.Epoch().LeaseUID, Epoch: term.Epoch().Number,
		State: protocol.StateOwned, ChildFloor: floor,
	}.Encode(), nil
}

func with(all map[string]string, key, value string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, all)
	changed[key] = value
	return changed
}
