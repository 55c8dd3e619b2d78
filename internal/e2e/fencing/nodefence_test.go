package fencing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// nodeFences returns a client of NodeFences, whose manifest it installs once.
func nodeFences(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	require.NoError(t, installed())
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	return client.Resource(v1alpha1.Resource())
}

var installed = sync.OnceValue(func() error {
	ctx := context.Background()
	client, err := dynamic.NewForConfig(shared.Admin())
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(v1alpha1.CRD), 4096).Decode(definition); err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	})
	if _, err := definitions.Create(ctx, definition,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(v1alpha1.Resource()).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}); err != nil {
		return err
	}
	now, err := definitions.Get(ctx, definition.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(now.Object, "status", "conditions")
	for _, condition := range conditions {
		if condition.(map[string]any)["type"] == "NonStructuralSchema" {
			return fmt.Errorf("the schema is not structural: %v", condition)
		}
	}
	return err
})

func toUnstructured(t *testing.T, fence *v1alpha1.NodeFence) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fence)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: object}
}

func fromUnstructured(t *testing.T, object *unstructured.Unstructured) *v1alpha1.NodeFence {
	t.Helper()
	fence := &v1alpha1.NodeFence{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, fence, true))
	return fence
}

// full is a status in which every field is set.
func full() v1alpha1.Status {
	second := metav1.NewTime(time.Unix(1_700_000_000, 0))
	micro := metav1.NewMicroTime(time.Unix(1_700_000_000, 123_456_000))
	return v1alpha1.Status{
		NodeUID: "uid", BootID: "boot", ProviderID: "provider://x", Incident: 7,
		Triggers: []v1alpha1.Trigger{{Type: "Ready", Status: "Unknown", Since: second}},
		Phase:    v1alpha1.PhaseReleasing,
		Progress: v1alpha1.Progress{
			Step: v1alpha1.StepPowerManagement, Status: v1alpha1.StageRunning,
			Retries: 2, Jobs: []string{"fence-0123456789-7-1"}, Restarts: 1,
			Wait: &v1alpha1.Wait{Kind: v1alpha1.WaitDetach, Since: micro}, Abort: v1alpha1.AbortNodeReady,
			Devices: []v1alpha1.Device{{
				Device: "fence_ipmilan bmc 1", Level: 1, State: v1alpha1.DeviceOffIntent, Tries: 1, Touched: true,
				SeenOff: true,
				Op:      &v1alpha1.Op{ID: "op", Action: agent.ActionOff, Seq: 1, DeadlineSeconds: 30},
			}},
			Level: 1, Verified: true, Released: v1alpha1.ReleasedBegun,
			Taints:     v1alpha1.Taints{Fence: true, OutOfService: v1alpha1.TaintOurs},
			Pods:       v1alpha1.Pods{Listed: 3, Deleted: 2, Refused: 1},
			ConfigHash: "hash", Problems: v1alpha1.Problems{Count: 1, WindowStart: &second},
		},
		Evidence: []v1alpha1.Evidence{{
			Op: "op", Device: "fence_ipmilan bmc 1",
			Readings: []v1alpha1.Reading{{Power: agent.PowerOff, At: micro}},
			Source:   v1alpha1.SourceManual, By: "kubectl",
		}},
		Hold:    &v1alpha1.Hold{Reason: "Storm", Message: "half of the nodes", Since: second},
		History: []string{"1: Recovered"},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionPoweredOff, Status: metav1.ConditionTrue, Reason: "Off",
			Message: "plug 1", LastTransitionTime: second,
		}},
	}
}

func TestNodeFence(t *testing.T) {
	t.Parallel()
	fences := nodeFences(t)
	const nodeName = "worker-7.example"
	fence := &v1alpha1.NodeFence{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.Name(nodeName)}, Node: nodeName,
		Status: full(),
	}
	fence.SetGroupVersionKind(v1alpha1.Kind())
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	created, err := fences.Create(t.Context(), toUnstructured(t, fence), strict)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fences.Delete(context.Background(), fence.Name, metav1.DeleteOptions{})) })
	_, err = fences.Create(t.Context(), toUnstructured(t, fence), strict)
	require.True(t, apierrors.IsAlreadyExists(err), "the name is the lock: %v", err)
	assert.Zero(t, fromUnstructured(t, created).Status, "only the subresource writes it")

	// write writes a status through the subresource.
	write := func(object *unstructured.Unstructured, change func(*v1alpha1.Status)) (*unstructured.Unstructured,
		error,
	) {
		fence := fromUnstructured(t, object)
		change(&fence.Status)
		return fences.UpdateStatus(t.Context(), toUnstructured(t, fence),
			metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	written, err := write(created, func(s *v1alpha1.Status) { *s = full() })
	require.NoError(t, err)
	want, err := json.Marshal(full())
	require.NoError(t, err)
	got, err := json.Marshal(fromUnstructured(t, written).Status)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(got))

	_, err = write(created, func(s *v1alpha1.Status) { s.Retries = 3 })
	assert.True(t, apierrors.IsConflict(err), "a write with an old version: %v", err)
	annotated := written.DeepCopy()
	annotated.SetAnnotations(map[string]string{v1alpha1.AnnotationStop: "hold"})
	annotated, err = fences.Update(t.Context(), annotated, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = write(written, func(s *v1alpha1.Status) { s.Retries = 3 })
	assert.True(t, apierrors.IsConflict(err), "a write by somebody who has not seen an admin's annotation: %v", err)

	for name, change := range map[string]func(*v1alpha1.Status){
		"phase":               func(s *v1alpha1.Status) { s.Phase = "Rebooting" },
		"step":                func(s *v1alpha1.Status) { s.Step = "power-management" },
		"status":              func(s *v1alpha1.Status) { s.Status = "GivenUp" },
		"wait.kind":           func(s *v1alpha1.Status) { s.Wait.Kind = "Tea" },
		"abort":               func(s *v1alpha1.Status) { s.Abort = "Never" },
		"devices[0].state":    func(s *v1alpha1.Status) { s.Devices[0].State = "Rebooted" },
		"op.action":           func(s *v1alpha1.Status) { s.Devices[0].Op.Action = "reboot" },
		"power":               func(s *v1alpha1.Status) { s.Evidence[0].Readings[0].Power = "OFF" },
		"source":              func(s *v1alpha1.Status) { s.Evidence[0].Source = "hearsay" },
		"released":            func(s *v1alpha1.Status) { s.Released = "Perhaps" },
		"outOfService":        func(s *v1alpha1.Status) { s.Taints.OutOfService = "Theirs" },
		"two of one device":   func(s *v1alpha1.Status) { s.Devices = append(s.Devices, s.Devices[0]) },
		"too much evidence":   func(s *v1alpha1.Status) { s.Evidence = make([]v1alpha1.Evidence, 65) },
		"a negative incident": func(s *v1alpha1.Status) { s.Incident = -1 },
	} {
		_, err := write(annotated, change)
		assert.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
	}

	moved := annotated.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(moved.Object, "worker-8.example", "node"))
	_, err = fences.Update(t.Context(), moved, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	assert.ErrorContains(t, err, "node is immutable")

	assert.Equal(t, map[string]any{
		"Name": v1alpha1.Name(nodeName), "Node": nodeName, "Step": "Power-Management", "Status": "Running",
		"Retries": float64(2),
		"Phase":   "Releasing", "Released": "Begun", "Hold": "Storm",
	}, printed(t, v1alpha1.Name(nodeName)))
}

// printed is what kubectl shows of a NodeFence, by column, without its age.
func printed(t *testing.T, name string) map[string]any {
	t.Helper()
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	answer, err := client.RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion().String(),
		v1alpha1.Resource().Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	require.NoError(t, err)
	var table metav1.Table
	require.NoError(t, json.Unmarshal(answer, &table))
	row := slices.IndexFunc(table.Rows, func(r metav1.TableRow) bool { return r.Cells[0] == name })
	require.GreaterOrEqual(t, row, 0)
	shown := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		shown[column.Name] = table.Rows[row].Cells[i]
	}
	assert.Contains(t, shown, "Age")
	delete(shown, "Age")
	return shown
}
