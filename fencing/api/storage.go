package api

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
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

// Validate returns all errors in s, or nil if s is nil.
func (s *Storage) Validate() error {
	if s == nil {
		return nil
	}
	if len(s.Drivers)+len(s.Classes)+len(s.Volumes) == 0 {
		return errors.New("fencing: Storage: Drivers, Classes or Volumes: at least one is required (got none)")
	}
	if slices.ContainsFunc(s.Volumes, func(v labels.Selector) bool { return v == nil || v.Empty() }) {
		return errors.New("fencing: Storage: Volumes: must not select everything (got an empty selector)")
	}
	return nil
}
