package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Widget is an object that the operator paints.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Wanted",type=string,JSONPath=`.spec.colour`
// +kubebuilder:printcolumn:name="Colour",type=string,JSONPath=`.status.colour`
// +kubebuilder:printcolumn:name="Worker",type=string,JSONPath=`.status.worker`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what a user wants.
type WidgetSpec struct {
	// Colour is the colour that the operator paints the Widget in.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Colour string `json:"colour"`
	// Replicas is how many Pods show the Widget. They have its labels.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// WidgetStatus is what the operator has done.
type WidgetStatus struct {
	// Colour is that in which the Widget is painted.
	//
	// +optional
	Colour string `json:"colour,omitempty"`
	// Worker is the name of the Pod that has painted it.
	//
	// +optional
	Worker string `json:"worker,omitempty"`
}

// WidgetList is a list of Widgets.
//
// +kubebuilder:object:root=true
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}
