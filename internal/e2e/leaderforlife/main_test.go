package leaderforlife_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of every test that does not break it.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	e2e.Main(m, &shared, e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{lostNode, goodNode}},
		cordon, e2e.Built(e2e.Race(), program))
}

// cordon keeps the scheduler from the node that is for Pods that say so.
func cordon(cp *e2e.ControlPlane) error {
	client, err := kubernetes.NewForConfig(cp.Admin())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(context.Background(), lostNode, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	return err
}
