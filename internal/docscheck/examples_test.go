package docscheck_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// This file has the blocks of pages that have to compile.
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
		return controller(ctx, guarded) // returns once ctx has ended and its goroutines have
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

var _ = run

func run(ctx context.Context, config *rest.Config, parent *supervisor.Supervisor, log *zap.Logger) error {
	// A client of its own: renewals must not queue behind your controller's requests.
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: "default",
		Name:      "my-controller",
		Logger:    log,
		// From supervisor.Start(), first in main: after a crash, the next leader works within milliseconds.
		Supervisor: parent.Client(config),
	})
	if err != nil {
		return err
	}
	// Make the controller's clients from this: they write only while this process leads.
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	// Blocks: waits to become the leader, calls the function, and releases the Lease when ctx has
	// ended and the function has returned. If leadership is lost, the process exits with code 75.
	return elector.Run(ctx, func(ctx context.Context) error {
		return controller(ctx, guarded)
	})
}

var (
	_ = migrated
	_ = bridge
)

func migrated(ctx context.Context, config *rest.Config, identity string) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: "default", Name: "my-controller", // the same Lease
		Identity:      identity,         // unique per process; leave it out if nothing depends on it
		LeaseDuration: 15 * time.Second, // the same
	})
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error { return controller(ctx, config) })
}

func bridge(ctx context.Context, config *rest.Config, c replica.Config) error {
	c.ElectionName = "my-controller" // the Lease of the releases before
	r, err := replica.New(config, c)
	if err != nil {
		return err
	}
	return r.Elector.Run(ctx, func(ctx context.Context) error {
		if err := r.Sharder.StripLabels(ctx); err != nil {
			return err
		}
		return controller(ctx, r.LeaderConfig)
	})
}

var _ = warmLeader // of outages.md

func warmLeader(ctx context.Context, config *rest.Config, client kubernetes.Interface, log *zap.Logger) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: "default", Name: "my-controller", StepDown: 3 * time.Second, Logger: log,
	})
	if err != nil {
		return err
	}
	source := fresh.NewRelister(fresh.Source(client.CoreV1().ConfigMaps("")))
	newInformer := func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	}
	caches := informers.NewSharedInformerFactory(client, 0)
	warm := fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: source,
		Informer: caches.InformerFor(&corev1.ConfigMap{}, newInformer),
	}
	caches.Start(ctx.Done()) // of the process, not of a term
	defer caches.Shutdown()
	return elector.Run(ctx, func(ctx context.Context) error {
		if err := fresh.Wait(ctx, warm); err != nil {
			return err
		}
		configMaps := caches.Core().V1().ConfigMaps().Lister()
		return reconcileAll(ctx, configMaps) // returns within StepDown after ctx has ended
	})
}

func reconcileAll(context.Context, corelisters.ConfigMapLister) error { return nil }

// slogCore writes what zap logs to a slog.Handler.
type slogCore struct{ handler slog.Handler }

func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slog.Level(4*l)) // zap counts levels by 1, slog by 4
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.handler.WithAttrs(attributes(fields))}
}

func (c slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return checked
	}
	return checked.AddCore(e, c)
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slog.Level(4*e.Level), e.Message, e.Caller.PC)
	r.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (c slogCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	attributes := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for key, value := range values.Fields {
			attributes = append(attributes, slog.Any(key, value))
		}
	}
	return attributes
}

func TestSlogHandlerGetsWhatZapLogs(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(slogCore{slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})})
	log.Debug("not at this level")
	log.With(zap.String("lease", "a")).Info("started leading", zap.Int("term", 3))
	log.Warn("request failed", zap.Error(errors.New("no answer")), zap.Strings("verbs", []string{"get"}))
	log.Error("lost")
	assert.Equal(t, `level=INFO msg="started leading" lease=a term=3
level=WARN msg="request failed" error="no answer" verbs=[get]
level=ERROR msg=lost
`, out.String())
}
