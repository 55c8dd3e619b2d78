package leaderforlife_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of every test that does not break it.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	cp, err := e2e.New(context.Background(), e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{lostNode, goodNode}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = cp
	if err := cordon(cp, lostNode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs of the shared control plane:", cp.Dir) // its processes end with this one
		return code
	}
	if err := cp.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cordon keeps the scheduler from a node, which is for Pods that say so.
func cordon(cp *e2e.ControlPlane, node string) error {
	client, err := kubernetes.NewForConfig(cp.Admin())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	return err
}
