package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Apply creates the objects of a manifest. Fields that the API server does not know are errors.
func (c *ControlPlane) Apply(ctx context.Context, manifest string) error {
	return Apply(ctx, c.Admin(), manifest)
}

// Apply creates the objects of a manifest on any API server.
func Apply(ctx context.Context, config *rest.Config, manifest string) error {
	return each(config, "apply", manifest,
		func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
			_, err := objects.Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		})
}

// Delete deletes the objects that Apply has created and that still exist. It does not wait until
// they are gone: namespaces take a while.
func (c *ControlPlane) Delete(ctx context.Context, manifest string) error {
	return each(c.Admin(), "delete", manifest,
		func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) error {
			if err := objects.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
}

// each does something with each object of a manifest.
func each(config *rest.Config, what, manifest string,
	do func(dynamic.ResourceInterface, *unstructured.Unstructured) error,
) error {
	file, err := os.Open(manifest)
	if err != nil {
		return fmt.Errorf("e2e: %s: %w", what, err)
	}
	defer file.Close()
	groups, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("e2e: %s: %w", what, err)
	}
	resources, err := restmapper.GetAPIGroupResources(groups)
	if err != nil {
		return fmt.Errorf("e2e: %s: %w", what, err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("e2e: %s: %w", what, err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var object unstructured.Unstructured
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("e2e: %s %s: %w", what, manifest, err)
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			err = do(client.Resource(mapping.Resource).Namespace(object.GetNamespace()), &object)
		}
		if err != nil {
			return fmt.Errorf("e2e: %s %s: %s %s: %w", what, manifest, kind.Kind, object.GetName(), err)
		}
	}
}
