package shardertest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/testing"
)

// Objects returns a client for the metadata of the objects in a fake clientset of client-go, as
// NewShard and New of package sharder want one: what they write, the clientset shows, and the other
// way round. client-go's own fake has objects of its own. mapper knows the kinds.
//
// It reads, patches, deletes and watches objects, and does not create them.
func Objects(clientset interface{ Tracker() testing.ObjectTracker },
	mapper meta.RESTMapper,
) *metadatafake.FakeMetadataClient {
	tracker := clientset.Tracker()
	react := testing.ObjectReaction(tracker)
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	client.PrependReactor("*", "*", func(action testing.Action) (bool, runtime.Object, error) {
		if list, ok := action.(testing.ListActionImpl); ok {
			kind, err := mapper.KindFor(list.Resource)
			if err != nil {
				return true, nil, fmt.Errorf("shardertest: %w", err)
			}
			list.Kind = kind
			action = list
		}
		_, found, err := react(action)
		if err != nil || found == nil {
			return true, nil, err
		}
		found, err = metadataOf(found)
		return true, found, err
	})
	client.PrependWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		all, err := tracker.Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, fmt.Errorf("shardertest: %w", err)
		}
		return true, watch.Filter(all, func(e watch.Event) (watch.Event, bool) {
			changed, err := metadataOf(e.Object)
			e.Object = changed
			return e, err == nil
		}), nil
	})
	return client
}

// metadataOf returns the metadata of an object, or of those of a list.
func metadataOf(obj runtime.Object) (runtime.Object, error) {
	if !meta.IsListType(obj) {
		o, err := meta.Accessor(obj)
		if err != nil {
			return nil, fmt.Errorf("shardertest: %w", err)
		}
		return meta.AsPartialObjectMetadata(o), nil
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	list := &metav1.List{}
	if m, err := meta.ListAccessor(obj); err == nil {
		list.ResourceVersion = m.GetResourceVersion()
	}
	for _, item := range items {
		o, err := metadataOf(item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	return list, nil
}
