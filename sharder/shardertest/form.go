package shardertest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// form is how a client needs objects. The zero form leaves them typed, as they are.
type form struct {
	one  func(runtime.Object) (runtime.Object, error)
	list func(version string, items []runtime.Object) runtime.Object
}

// convert brings an object, or all of a list, into the form.
func (f form) convert(obj runtime.Object) (runtime.Object, error) {
	switch {
	case f.one == nil:
		return obj, nil
	case !meta.IsListType(obj):
		return f.one(obj)
	}
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil, fmt.Errorf("shardertest: %w", err)
	}
	for i := range items {
		if items[i], err = f.one(items[i]); err != nil {
			return nil, err
		}
	}
	version := ""
	if m, err := meta.ListAccessor(obj); err == nil {
		version = m.GetResourceVersion()
	}
	return f.list(version, items), nil
}

// asMetadata is the form of client-go's fake for metadata.
func asMetadata() form {
	return form{
		one: func(obj runtime.Object) (runtime.Object, error) {
			o, err := meta.Accessor(obj)
			if err != nil {
				return nil, fmt.Errorf("shardertest: %w", err)
			}
			return meta.AsPartialObjectMetadata(o), nil
		},
		list: func(version string, items []runtime.Object) runtime.Object {
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}
			for _, item := range items {
				list.Items = append(list.Items, runtime.RawExtension{Object: item})
			}
			return list
		},
	}
}

// asUnstructured is the form of client-go's dynamic fake. kinds has those of typed objects.
func asUnstructured(kinds *runtime.Scheme) form {
	return form{
		one: func(obj runtime.Object) (runtime.Object, error) {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				return u, nil
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				return nil, fmt.Errorf("shardertest: %w", err)
			}
			known, _, err := kinds.ObjectKinds(obj)
			if err != nil {
				return nil, fmt.Errorf("shardertest: %w", err)
			}
			u := &unstructured.Unstructured{Object: content}
			if u.GroupVersionKind().Empty() {
				u.SetGroupVersionKind(known[0])
			}
			return u, nil
		},
		list: func(version string, items []runtime.Object) runtime.Object {
			list := &unstructured.UnstructuredList{Object: map[string]any{}}
			list.SetResourceVersion(version)
			for _, item := range items {
				list.Items = append(list.Items, *item.(*unstructured.Unstructured)) //nolint:forcetypeassert // by one
			}
			return list
		},
	}
}
