package shardertest

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// objects are the objects of all clients of a ring. A kind with a Go type is stored as that,
// whichever client has written it, because typed clients could not read it otherwise.
type objects struct {
	clienttesting.ObjectTracker
	kinds  *runtime.Scheme
	mapper meta.RESTMapper
}

// Add implements ObjectTracker.
func (o objects) Add(obj runtime.Object) error {
	return o.stored(obj, func(obj runtime.Object) error { return o.ObjectTracker.Add(obj) })
}

// Create implements ObjectTracker.
func (o objects) Create(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	options ...metav1.CreateOptions,
) error {
	return o.stored(obj, func(obj runtime.Object) error {
		obj = obj.DeepCopyObject()
		if m, err := meta.Accessor(obj); err == nil && m.GetUID() == "" {
			m.SetUID(uuid.NewUUID()) // by which the owner references of its children name it
		}
		return o.ObjectTracker.Create(gvr, obj, ns, options...)
	})
}

// Update implements ObjectTracker.
func (o objects) Update(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	options ...metav1.UpdateOptions,
) error {
	return o.stored(obj, func(obj runtime.Object) error { return o.ObjectTracker.Update(gvr, obj, ns, options...) })
}

// Patch implements ObjectTracker.
func (o objects) Patch(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	options ...metav1.PatchOptions,
) error {
	return o.stored(obj, func(obj runtime.Object) error { return o.ObjectTracker.Patch(gvr, obj, ns, options...) })
}

// Apply implements ObjectTracker. An object that does not exist is created.
func (o objects) Apply(gvr schema.GroupVersionResource, obj runtime.Object, ns string,
	options ...metav1.PatchOptions,
) error {
	applied, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return o.ObjectTracker.Apply(gvr, obj, ns, options...)
	}
	switch found, err := o.Get(gvr, ns, applied.GetName()); {
	case apierrors.IsNotFound(err):
		kind, err := o.mapper.KindFor(gvr)
		if err != nil {
			return fmt.Errorf("shardertest: %w", err)
		}
		created := applied.DeepCopy()
		created.SetGroupVersionKind(kind)
		return o.Create(gvr, created, ns)
	case err != nil:
		return err
	default:
		merged, ok := found.(*unstructured.Unstructured)
		if !ok { // client-go knows how to merge by the tags of a Go type
			return o.ObjectTracker.Apply(gvr, obj, ns, options...)
		}
		merge(merged.Object, applied.DeepCopy().Object)
		return o.Update(gvr, merged, ns)
	}
}

// merge sets the fields of from in into.
func merge(into, from map[string]any) {
	for key, value := range from {
		old, isMap := into[key].(map[string]any)
		if fields, ok := value.(map[string]any); ok && isMap {
			merge(old, fields)
		} else {
			into[key] = value
		}
	}
}

// stored stores an object as its Go type, if it has one.
func (o objects) stored(obj runtime.Object, store func(runtime.Object) error) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !typed(o.kinds, u.GroupVersionKind()) {
		return store(obj)
	}
	converted, err := o.kinds.New(u.GroupVersionKind())
	if err != nil {
		return fmt.Errorf("shardertest: %w", err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, converted); err != nil {
		return fmt.Errorf("shardertest: %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return store(converted)
}

// resourceOf returns the resource of an object.
func (o objects) resourceOf(obj runtime.Object) (schema.GroupVersionResource, error) {
	kind := obj.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		known, _, err := o.kinds.ObjectKinds(obj)
		if err != nil {
			return schema.GroupVersionResource{}, err
		}
		kind = known[0]
	}
	mapping, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}

// create stores obj as a new object, and reads it.
func (o objects) create(obj shard.Object) error {
	gvr, err := o.resourceOf(obj)
	if err != nil {
		return err
	}
	if err := o.Create(gvr, obj, obj.GetNamespace()); err != nil {
		return err
	}
	return o.read(obj)
}

// replace stores obj in place of the object of its name.
func (o objects) replace(obj shard.Object) error {
	gvr, err := o.resourceOf(obj)
	if err != nil {
		return err
	}
	return o.Update(gvr, obj, obj.GetNamespace())
}

// read reads the object of the name of into, into it.
func (o objects) read(into shard.Object) error {
	gvr, err := o.resourceOf(into)
	if err != nil {
		return err
	}
	found, err := o.Get(gvr, into.GetNamespace(), into.GetName())
	if err != nil {
		return err
	}
	if to, from := reflect.ValueOf(into), reflect.ValueOf(found); to.Type() == from.Type() {
		to.Elem().Set(from.Elem())
		return nil
	}
	u, ok := into.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("a %T cannot be read into a %T", found, into)
	}
	converted, err := asUnstructured(o.kinds).one(found)
	if err != nil {
		return err
	}
	u.Object = converted.(*unstructured.Unstructured).Object //nolint:forcetypeassert // by that form
	return nil
}

// serve makes a fake client show these objects, in a form, instead of its own.
func (o objects) serve(fake *clienttesting.Fake, in form) {
	react := clienttesting.ObjectReaction(o)
	fake.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			kind, err := o.mapper.KindFor(list.Resource)
			if err != nil {
				return true, nil, fmt.Errorf("shardertest: %w", err)
			}
			list.Kind = kind
			action = list
		}
		handled, found, err := react(action)
		if !handled || err != nil || found == nil {
			return handled, nil, err
		}
		found, err = in.convert(found)
		return true, found, err
	})
	fake.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := o.watch(action, in)
		return true, w, err
	})
}

// watch returns a watch that selects as the API server does. client-go's fakes do not select in
// watches.
func (o objects) watch(action clienttesting.Action, in form) (watch.Interface, error) {
	s := selection{labels.Everything(), map[types.NamespacedName]bool{}}
	var options []metav1.ListOptions
	if a, ok := action.(clienttesting.WatchActionImpl); ok {
		options = append(options, a.ListOptions) // with a version: this also finds what was created since the list
		if a.WatchRestrictions.Labels != nil {
			s.selector = a.WatchRestrictions.Labels
		}
	}
	gvr, namespace := action.GetResource(), action.GetNamespace()
	kind, err := o.mapper.KindFor(gvr)
	if err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	w, err := o.Watch(gvr, namespace, options...)
	if err != nil {
		return nil, err
	}
	present, err := o.List(gvr, kind, namespace)
	if err == nil {
		err = meta.EachListItem(present, func(obj runtime.Object) error {
			name, _, err := nameAndLabels(obj)
			s.shown[name] = true // maybe, by the list before this watch
			return err
		})
	}
	if err != nil {
		w.Stop()
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	return newFilteredWatch(w, func(e watch.Event) (watch.Event, bool) {
		e, shown := s.see(e)
		if !shown {
			return e, false
		}
		converted, err := in.convert(e.Object)
		e.Object = converted
		return e, err == nil
	}), nil
}

// selected lists the objects of all namespaces that a selector selects.
func (o objects) selected(gvr schema.GroupVersionResource, kind schema.GroupVersionKind, by string) (runtime.Object,
	error,
) {
	selector, err := labels.Parse(by)
	if err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	list, err := o.List(gvr, kind, metav1.NamespaceAll)
	if err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	var selected []runtime.Object
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		_, set, err := nameAndLabels(obj)
		if selector.Matches(set) {
			selected = append(selected, obj)
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	return list, meta.SetList(list, selected)
}

func nameAndLabels(obj runtime.Object) (types.NamespacedName, labels.Set, error) {
	o, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, nil, err
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetLabels(), nil
}

// selection is what a watch with a selector has shown.
type selection struct {
	selector labels.Selector
	shown    map[types.NamespacedName]bool
}

// see returns the event that the watch shows, or false if it shows none. The watch shows an object
// that is no longer selected as deleted.
func (s selection) see(e watch.Event) (watch.Event, bool) {
	name, set, err := nameAndLabels(e.Object)
	if err != nil {
		return e, false
	}
	before := s.shown[name]
	switch {
	case e.Type != watch.Deleted && s.selector.Matches(set):
		s.shown[name] = true
		if !before {
			e.Type = watch.Added
		}
		return e, true
	case before:
		delete(s.shown, name)
		e.Type = watch.Deleted
		return e, true
	}
	return e, false
}
