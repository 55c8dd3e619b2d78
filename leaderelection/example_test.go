package leaderelection_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// Against a fake clientset, as in a unit test of a controller; in production the client is
// kubernetes.NewForConfig(leaderelection.LeaseConfig(config)).
func ExampleNew() {
	elector, err := leaderelection.New(fake.NewClientset(),
		leaderelection.Config{Namespace: "default", Name: "my-controller"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err = elector.Run(ctx, func(ctx context.Context) error {
		fmt.Println("leading:", elector.IsLeader())
		cancel() // the process must end
		<-ctx.Done()
		return nil
	})
	fmt.Println("ended:", err)
	// Output:
	// leading: true
	// ended: <nil>
}

func ExampleElector_TryAcquire() {
	client := fake.NewClientset()
	config := leaderelection.Config{Namespace: "default", Name: "nightly-report", Identity: "host-a_1"}
	a, _ := leaderelection.New(client, config)
	config.Identity = "host-b_2"
	b, _ := leaderelection.New(client, config)
	ctx := context.Background()

	_, err := a.TryAcquire(ctx)
	fmt.Println(err)
	_, err = b.TryAcquire(ctx)
	fmt.Println(err)
	fmt.Println(a.Release(ctx))
	// Output:
	// <nil>
	// leaderelection: lease default/nightly-report is held by "host-a_1" (free in 15s if not renewed)
	// <nil>
}
