package docs_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// This file and those beside it have the blocks of pages that have to compile.
var (
	_ = elect
	_ = becomeLeader
	_ = shardedController
	_ = publish

	controller func(ctx context.Context, guarded *rest.Config) error
	work       func(ctx context.Context) error
	reconcile  func(ctx context.Context, m *corev1.ConfigMap) error
)

func elect(ctx context.Context, config *rest.Config, log *zap.Logger) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config)) // a connection of its own
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace:      "default",
		Name:           "my-controller",
		KernelDeadline: true,             // Linux; in a container, see PID 1
		ReleaseTimeout: 20 * time.Second, // how long the work may take to end
		Logger:         log,
	})
	if err != nil {
		return err
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport) // before any other wrapper
	return elector.Run(ctx, func(ctx context.Context) error {
		return controller(ctx, guarded) // returns when ctx ends, and when nothing of it goes on
	})
}

func becomeLeader(ctx context.Context, log *zap.Logger) error {
	if err := leader.Become(ctx, "my-daemon", leader.WithLogger(log)); err != nil {
		return err
	}
	return work(ctx)
}

func shardedController(ctx context.Context, config *rest.Config, log *zap.Logger) error {
	config = rest.CopyConfig(config)
	config.QPS = -1 // for the work's client, below; client-go's default is 5 requests per second
	r, err := replica.New(config, replica.Config{
		Namespace: "default", Ring: "my-controller", PodUID: os.Getenv("POD_UID"),
		Resources:      []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
		KernelDeadline: true, // Linux; in a container, see PID 1
		ReleaseTimeout: 20 * time.Second,
		Logger:         log,
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.ShardConfig) // writes only while this replica holds its lease
	if err != nil {
		return err
	}
	return r.Run(ctx, func(ctx context.Context) error {
		source := shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client)
		informer := r.Shard.NewInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
		return shard.RunController(ctx, r.Shard, informer, 4, reconcile)
	}, nil)
}

func publish(ctx context.Context, config *rest.Config, c endpoints.Config, server *http.Server) error {
	client, err := kubernetes.NewForConfig(endpoints.ClientConfig(config)) // a connection of its own
	if err != nil {
		return err
	}
	reconciler, err := endpoints.New(client, c) // Namespace, Service, Addresses, Ports
	if err != nil {
		return err
	}
	// The server listens already.
	err = reconciler.Run(ctx)     // withdraws when ctx ends
	<-time.After(5 * time.Second) // clients learn of that a moment later
	return errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
}
