package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bellwether-k8s/bellwether/internal/e2e/kustomize"
)

// bundle is what kubectl apply -k applies, in that order.
type bundle []*unstructured.Unstructured

// render does what kubectl does, with its restrictions: a file is in the directory that names it.
func render(t testing.TB, name string) bundle {
	t.Helper()
	return parse(t, repository(t), "/deploy/"+name)
}

// with renders a bundle with components, as a kustomization of a user does.
func with(t testing.TB, name string, components ...string) bundle {
	t.Helper()
	lines := []string{"resources:", "- ../" + name}
	if len(components) > 0 {
		lines = append(lines, "components:")
	}
	for _, c := range components {
		lines = append(lines, "- ../components/"+c)
	}
	files := repository(t)
	require.NoError(t, files.WriteFile("/deploy/user/kustomization.yaml", []byte(strings.Join(lines, "\n"))))
	return parse(t, files, "/deploy/user")
}

// repository has the manifests of the repository, in memory.
func repository(t testing.TB) filesys.FileSystem {
	t.Helper()
	files, root := filesys.MakeFsInMemory(), os.DirFS("../../..")
	for _, directory := range []string{"deploy", "examples", "fencing/v1alpha1", "metrics/dashboards"} {
		require.NoError(t, fs.WalkDir(root, directory, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".json" {
				return err
			}
			text, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			return files.WriteFile("/"+path, text)
		}))
	}
	return files
}

func parse(t testing.TB, files filesys.FileSystem, directory string) (b bundle) {
	t.Helper()
	text, err := kustomize.Render(files, directory)
	require.NoError(t, err)
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var object unstructured.Unstructured
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return b
		}
		require.NoError(t, err)
		b = append(b, &object)
	}
}

// all are the objects of a kind.
func all[T any](t testing.TB, b bundle, kind string) (found []T) {
	t.Helper()
	for _, object := range b {
		if object.GetKind() == kind {
			var typed T
			converter := runtime.DefaultUnstructuredConverter
			require.NoError(t, converter.FromUnstructuredWithValidation(object.Object, &typed, true))
			found = append(found, typed)
		}
	}
	return found
}

func (b bundle) deployment(t testing.TB) appsv1.Deployment {
	t.Helper()
	found := all[appsv1.Deployment](t, b, "Deployment")
	require.Len(t, found, 1)
	return found[0]
}

// apply applies the objects one after the other, as kubectl does: the kinds are those that the API
// server knows before the first.
func (b bundle) apply(t testing.TB) {
	t.Helper()
	groups, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	resources, err := restmapper.GetAPIGroupResources(groups)
	require.NoError(t, err)
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	for _, object := range b {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			require.NotEmpty(t, object.GetNamespace(), "%s %s", kind.Kind, object.GetName())
		}
		text, err := json.Marshal(object)
		require.NoError(t, err)
		objects := client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		_, err = objects.Patch(t.Context(), object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
			FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict, Force: ptr.To(true),
		})
		require.NoError(t, err, "%s %s", kind.Kind, object.GetName())
		// Not namespaces, which stay for a while after that, nor definitions, with their objects.
		if kind.Kind != "Namespace" && kind.Kind != "CustomResourceDefinition" {
			t.Cleanup(func() {
				err := objects.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
				if !apierrors.IsNotFound(err) { // another bundle has it, too
					require.NoError(t, err)
				}
			})
		}
	}
}
