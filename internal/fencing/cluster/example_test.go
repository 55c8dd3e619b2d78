package cluster_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// The workloads of a machine that is off are released.
func Example() {
	ctx := context.Background()
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-7", UID: "f00d"}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "cafe"},
			Spec:       corev1.PodSpec{NodeName: "worker-7"},
		},
	)
	node, err := cluster.New(client, cluster.Config{Name: "worker-7", UID: "f00d", Incident: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	machineIsOff := func(context.Context) error { return nil } // read every feed, and the node
	if err := node.MarkUnschedulable(ctx, machineIsOff); err != nil {
		fmt.Println(err)
		return
	}
	options := cluster.Options{OnPod: func(pod *corev1.Pod) { fmt.Println("released", pod.Namespace+"/"+pod.Name) }}
	var progress cluster.Progress
	for !progress.Done {
		if progress, err = node.DeletePods(ctx, machineIsOff, options, progress); err != nil {
			fmt.Println(err) // and try again
		}
		<-time.After(progress.After)
	}
	<-time.After(250 * time.Millisecond) // the cluster has to see that they are gone
	if _, err := node.TaintOutOfService(ctx, machineIsOff); err != nil {
		fmt.Println(err)
		return
	}
	for range 60 {
		pods, attachments, err := node.Left(ctx)
		if err == nil && len(pods)+len(attachments) == 0 {
			break
		}
		<-time.After(time.Second)
	}
	owner, err := node.UntaintOutOfService(ctx)
	if err != nil {
		fmt.Println(err) // and try again: the machine must not be switched on before
		return
	}
	fmt.Printf("%d of %d pods deleted, taint: %q\n", progress.Pods.Deleted, progress.Pods.Listed, owner)
	// Output:
	// released shop/db-0
	// 1 of 1 pods deleted, taint: ""
}
