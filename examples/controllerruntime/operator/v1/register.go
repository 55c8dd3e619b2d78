package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion returns the group and version of Widget.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "example.bellwether.dev", Version: "v1"}
}

// Widgets returns the resource, as rings name it.
func Widgets() schema.GroupVersionResource { return GroupVersion().WithResource("widgets") }

// AddToScheme adds the kinds of this package. Its error, which runtime.SchemeBuilder requires, is always nil.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
