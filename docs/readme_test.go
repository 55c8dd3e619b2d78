package docs_test

import (
	"context"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

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
	// What the controller's clients are made from: they write only while this process leads.
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	// Blocks: waits for the leadership, works, and releases it when ctx ends and the work has
	// returned. If the leadership is lost the process exits with 75.
	return elector.Run(ctx, func(ctx context.Context) error {
		return controller(ctx, guarded)
	})
}
