package fencejobs_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
)

// What the controller of package fencing needs of agents.
var _ fencing.Agents = (*fencejobs.Jobs)(nil)

func ExampleNew() {
	client := fake.NewClientset() // kubernetes.NewForConfig(config)
	_, err := fencejobs.New(client, fencejobs.Config{
		Namespace: "fencer-jobs", Image: "registry.example/fence-agents:1.0",
		Pod: corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: "system-cluster-critical"}},
	})
	fmt.Println(err) // otherwise it is fencing.Config.Agents
	_, err = fencejobs.New(client, fencejobs.Config{Namespace: "fencer-jobs"})
	fmt.Println(err)
	// Output:
	// <nil>
	// fencejobs: Image: must be the name of an image (got "")
}
