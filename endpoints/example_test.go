package endpoints_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// Against a fake clientset, as in a unit test of a server.
func ExampleNew() {
	client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-server"}})
	published := make(chan bool, 1)
	reconciler, err := endpoints.New(client, endpoints.Config{
		Namespace: "default", Service: "my-server",
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("2001:db8::3")},
		Ports:     []endpoints.Port{{Name: "https", Number: 8443}},
		Hooks:     endpoints.Hooks{OnRound: func(endpoints.Round) { published <- true }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reconciler.Run(ctx) }()
	<-published
	show(client)
	cancel() // the server shuts down
	<-published
	fmt.Println("ended:", <-ended)
	show(client)
	// Output:
	// IPv4 10.1.2.3 8443
	// IPv6 2001:db8::3 8443
	// ended: <nil>
}

func show(client *fake.Clientset) {
	list, err := client.DiscoveryV1().EndpointSlices("default").List(context.Background(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=my-server",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			fmt.Println(s.AddressType, e.Addresses[0], *s.Ports[0].Port)
		}
	}
}

// A program with a loop of its own does one round after the other.
func ExampleReconciler_ReconcileOnce() {
	client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-server"}})
	reconciler, err := endpoints.New(client, endpoints.Config{
		Namespace: "default", Service: "my-server", Store: endpoints.LeaseStore{},
		Addresses: []netip.Addr{netip.MustParseAddr("10.1.2.3")},
		Ports:     []endpoints.Port{{Name: "https", Number: 8443}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reconciler.ReconcileOnce(context.Background()))
	show(client)
	fmt.Println(reconciler.Withdraw(context.Background()))
	show(client)
	// Output:
	// <nil>
	// IPv4 10.1.2.3 8443
	// <nil>
}
