package shardlease_test

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Against a fake clientset, as in a unit test of a controller; in production the client is
// kubernetes.NewForConfig(shardlease.LeaseConfig(config)).
func ExampleNew() {
	shard, err := shardlease.New(fake.NewClientset(), shardlease.Config{
		Namespace: "default", Ring: "my-controller", Identity: "my-controller-0",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err = shard.Run(ctx, func(ctx context.Context) error {
		term, err := shard.Term()
		fmt.Println("working in epoch", term.Epoch().Number, err)
		cancel() // the process must end
		<-ctx.Done()
		return nil
	})
	fmt.Println("ended:", err)
	_, err = shard.Term()
	fmt.Println(err)
	// Output:
	// working in epoch 1 <nil>
	// ended: <nil>
	// shardlease: the shard lease is not held
}

// What a shard does with a client that is guarded by its lease.
func ExampleTerm_Scope() {
	shard, _ := shardlease.New(fake.NewClientset(),
		shardlease.Config{Namespace: "default", Ring: "my-controller", Identity: "my-controller-0"})
	config := &rest.Config{}
	config.Wrap(shard.WrapTransport) // of the client that reconcile writes with
	reconcile := func(context.Context) {}
	_ = shard.Run(context.Background(), func(ctx context.Context) error {
		term, _ := shardlease.TermFrom(ctx)
		within, scope := term.Scope(ctx)
		reconcile(within)
		fmt.Println("may still be carried out:", scope.Open())
		return scope.Settle(ctx)
	})
	// Output:
	// may still be carried out: false
}

// What a sharder knows, without a server.
func ExampleTracker() {
	client := fake.NewClientset()
	shard, _ := shardlease.New(client,
		shardlease.Config{Namespace: "default", Ring: "my-controller", Identity: "my-controller-0"})
	roster, _ := shardstate.NewTracker(shardstate.Config{Namespace: "default", Ring: "my-controller"})
	see := func(ctx context.Context) {
		l, err := client.CoordinationV1().Leases("default").Get(ctx, "my-controller-0", metav1.GetOptions{})
		if err == nil {
			roster.Observe(l, clock.System().Now())
		}
		fmt.Println(roster.State("my-controller-0", clock.System().Now()), roster.Members(clock.System().Now()))
	}
	_ = shard.Run(context.Background(), func(ctx context.Context) error {
		see(ctx)
		return nil
	})
	see(context.Background())
	// Output:
	// Ready [my-controller-0]
	// Dead []
}
