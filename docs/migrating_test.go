package docs_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

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
	c.Tune = func(p *replica.Parts) {
		p.Election.Name = "my-controller" // the Lease of the releases before
		p.Election.OnLost = func(err error) {
			fmt.Fprintln(os.Stderr, err) // as before: a process that is no longer the leader ends
			os.Exit(leaderelection.ExitCodeNotLeader)
		}
	}
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
