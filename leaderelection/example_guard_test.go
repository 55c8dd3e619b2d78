package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// The elector's own client comes first, from the config that is not guarded. Everything else uses
// the guarded config: it is what a controller-runtime manager gets, too.
func ExampleElector_WrapTransport() {
	config := &rest.Config{Host: "https://api.invalid"} // in a Pod: rest.InClusterConfig()

	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		log.Fatal(err)
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{Namespace: "default", Name: "my-controller"})
	if err != nil {
		log.Fatal(err)
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport) // before any other wrapper
	client, err := kubernetes.NewForConfig(guarded)
	if err != nil {
		log.Fatal(err)
	}

	// Nothing is sent: elector.Run has not been called, so this process is not the leader.
	_, err = client.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{},
		metav1.CreateOptions{})
	switch {
	case errors.Is(err, leaderelection.ErrOutcomeUnknown):
		fmt.Println("the leadership ended while the request was under way")
	case errors.Is(err, leaderelection.ErrNotLeader):
		fmt.Println("not the leader")
	}
	// Output: not the leader
}

// A reader that has seen a token ignores what carries a smaller one: it is from an earlier leader.
func ExampleTermFrom() {
	lead := func(ctx context.Context) error {
		term, ok := leaderelection.TermFrom(ctx)
		if !ok {
			return errors.New("not called by an elector")
		}
		report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name:        "report",
			Annotations: map[string]string{"example.com/term": term.Token},
		}}
		_ = report // write it
		return nil
	}
	fmt.Println(lead(context.Background()))
	// Output: not called by an elector
}
