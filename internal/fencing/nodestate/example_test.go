package nodestate_test

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
)

func Example() {
	nodes, err := nodestate.New(api.NodeSelector{})
	if err != nil {
		fmt.Println(err)
		return
	}
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) // time.Now()
	node := func(version string, ready corev1.ConditionStatus) {
		nodes.Node(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "worker-0", UID: "7c6e", ResourceVersion: version},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}, clock)
	}
	lease := func(version string, stamp time.Time) {
		nodes.Lease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: corev1.NamespaceNodeLease, Name: "worker-0", UID: "0b1d",
				ResourceVersion: version,
			},
			Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: stamp}},
		}, clock)
	}
	show := func() {
		for _, n := range nodes.Facts(clock) {
			fmt.Printf("%s %s Ready %s, failing for %v, Lease silent for %v\n", clock.Format(time.TimeOnly), n.Name,
				n.Ready, n.FailingFor, n.LeaseSilentFor)
		}
	}

	yesterday := clock.AddDate(0, 0, -1) // by the clock of the node, which is wrong
	node("10", corev1.ConditionTrue)
	lease("11", yesterday)
	nodes.Synced()
	show()

	clock = clock.Add(10 * time.Second)
	lease("12", yesterday.Add(10*time.Second))
	show()

	clock = clock.Add(40 * time.Second)
	node("13", corev1.ConditionUnknown)
	clock = clock.Add(30 * time.Second)
	show()

	// Output:
	// 12:00:00 worker-0 Ready True, failing for 0s, Lease silent for -1ns
	// 12:00:10 worker-0 Ready True, failing for 0s, Lease silent for 0s
	// 12:01:20 worker-0 Ready Unknown, failing for 30s, Lease silent for 1m10s
}
