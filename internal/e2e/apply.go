package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply creates what a manifest says. Fields that the API server does not know are errors.
func (c *ControlPlane) Apply(ctx context.Context, manifest string) error {
	file, err := os.Open(manifest)
	if err != nil {
		return fmt.Errorf("e2e: apply: %w", err)
	}
	defer file.Close()
	groups, err := discovery.NewDiscoveryClientForConfig(c.Admin())
	if err != nil {
		return fmt.Errorf("e2e: apply: %w", err)
	}
	resources, err := restmapper.GetAPIGroupResources(groups)
	if err != nil {
		return fmt.Errorf("e2e: apply: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	client, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		return fmt.Errorf("e2e: apply: %w", err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var object unstructured.Unstructured
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("e2e: apply %s: %w", manifest, err)
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
				Create(ctx, &object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		}
		if err != nil {
			return fmt.Errorf("e2e: apply %s: %s %s: %w", manifest, kind.Kind, object.GetName(), err)
		}
	}
}
