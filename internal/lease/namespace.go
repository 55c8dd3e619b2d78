package lease

import "k8s.io/apimachinery/pkg/util/validation"

// NamespaceProblems returns what is wrong with the name of a namespace. It is mostly empty because the
// Pod does not set the environment variable that it comes from.
func NamespaceProblems(namespace string) []string {
	if namespace == "" {
		return []string{"must be set: in a Pod, take it from the environment variable POD_NAMESPACE, and set that " +
			"in the manifest by valueFrom: {fieldRef: {fieldPath: metadata.namespace}}"}
	}
	return validation.IsDNS1123Label(namespace)
}
