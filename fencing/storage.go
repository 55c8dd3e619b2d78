package fencing

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// Storage selects the volumes that a node cannot reach after a method of its isolation step. A
// volume is selected if any field matches it. At least one field is required.
type Storage struct {
	// Drivers are names of CSI drivers. They select persistent volumes and volumes inline in a pod.
	Drivers []string
	// Classes are names of StorageClasses, as in persistent volumes.
	Classes []string
	// Volumes select persistent volumes by their labels. No selector may be empty.
	Volumes []labels.Selector
}

func (s Storage) internal() *cluster.Storage {
	converted := cluster.Storage(s)
	return &converted
}
