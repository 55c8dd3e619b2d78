package shardertest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Clientset is a fake one of client-go: what NewSimpleClientset of package fake returns, which is
// much faster in a bubble of testing/synctest than that of NewClientset.
type Clientset interface {
	kubernetes.Interface
	Tracker() testing.ObjectTracker
}

// NewShard returns a shard whose lease and objects are in a fake clientset. Its lease has still to
// be run, and each of resources needs an informer. Its ring is called "test", its identity is
// "test-0" and its namespace "default". Nothing is guarded.
func NewShard(clientset Clientset, mapper meta.RESTMapper, resources ...api.Resource) (*shardlease.Lease, *shard.Shard,
	error,
) {
	lease, err := shardlease.New(clientset, shardlease.Config{Namespace: "default", Ring: "test", Identity: "test-0"})
	if err != nil {
		return nil, nil, err
	}
	shard, err := shard.New(Objects(clientset, mapper), mapper, lease,
		shard.Config{Resources: resources, Unguarded: true})
	return lease, shard, err
}
