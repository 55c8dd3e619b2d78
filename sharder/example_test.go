package sharder_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// This example tests a program with a sharder on fakes. In main, the clients are real ones, mapper
// comes from the server's discovery, and an elector calls Run.
func ExampleSharder() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMaps.GroupVersion().WithKind("ConfigMap"), meta.RESTScopeNamespace)
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		fmt.Println(err)
	}
	kube := fake.NewSimpleClientset()
	objects := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", UID: "1"},
	})

	settled := make(chan []string)
	s, err := sharder.New(kube, objects, mapper, sharder.Config{
		Ring: "checksum", Namespace: "default",
		Resources: []api.Resource{{GVR: configMaps}},
		Hooks:     sharder.Hooks{OnSettled: func(members []string) { settled <- members }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	shard, err := shardlease.New(kube,
		shardlease.Config{Namespace: "default", Ring: "checksum", Identity: "controller-0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = shard.Run(ctx, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		fmt.Println("settled among", <-settled)
		o, err := objects.Resource(configMaps).Namespace("default").Get(ctx, "one", metav1.GetOptions{})
		if err == nil {
			fmt.Println("one is with", o.Labels[api.ShardLabel("checksum")])
		}
		stop()
		return <-ended
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// settled among [controller-0]
	// one is with controller-0
}
