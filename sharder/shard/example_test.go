package shard_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// This example is a sharded controller on client-go's fakes, as in a unit test. A program makes its
// clients from a configuration whose Wrap has lease.WrapTransport, and does not set Unguarded.
func ExampleRunController() {
	configMaps := api.Resource{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}
	client := fake.NewClientset()
	mapper := meta.NewDefaultRESTMapper(nil) // in a program: restmapper.NewDeferredDiscoveryRESTMapper
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)

	lease, err := shardlease.New(client,
		shardlease.Config{Namespace: "default", Ring: "greetings", Identity: "greeter-0"})
	if err != nil {
		log.Fatal(err)
	}
	mine, err := shard.New(metadatafake.NewSimpleMetadataClient(scheme.Scheme), mapper, lease,
		shard.Config{Resources: []api.Resource{configMaps}, Unguarded: true})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = lease.Run(ctx, func(ctx context.Context) error {
		play(ctx, client, lease)
		informer := mine.NewInformer(
			shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client), &corev1.ConfigMap{}, 0, cache.Indexers{},
		)
		return shard.RunController(ctx, mine, informer, 2, func(_ context.Context, cm *corev1.ConfigMap) error {
			fmt.Println("hello,", cm.Name)
			cancel() // the process ends
			return nil
		})
	})
	fmt.Println("ended:", err)
	// Output:
	// hello, mine
	// ended: <nil>
}

// play creates two ConfigMaps, and assigns one of them as the sharder does.
func play(ctx context.Context, client *fake.Clientset, lease *shardlease.Lease) {
	for _, name := range []string{"mine", "somebody-elses"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if name == "mine" {
			if err := shardertest.Assign(lease, cm); err != nil {
				log.Fatal(err)
			}
		}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
}
