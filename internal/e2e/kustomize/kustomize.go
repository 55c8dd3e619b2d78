// Package kustomize renders kustomizations as kubectl does.
package kustomize

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Render returns the manifest of the kustomization in a directory.
func Render(files filesys.FileSystem, directory string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // as in kubectl, and by default in kustomize
	resources, err := krusty.MakeKustomizer(options).Run(files, directory)
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w", err)
	}
	return resources.AsYaml()
}
