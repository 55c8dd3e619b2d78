package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// electionName is that of the Lease of the sharders, and of those that work alone before and after
// them.
const electionName = "sharder"

// runPlain is a replica of a controller that is not sharded yet: client-go's elector lets one of
// them work.
func (r *replica) runPlain(ctx context.Context) error {
	candidate, err := kubernetes.NewForConfig(r.client("elector"))
	if err != nil {
		return err
	}
	alone, err := r.newLoner(r.client("work"))
	if err != nil {
		return err
	}
	// who leads releases when its work has ended
	electing, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	lock := &resourcelock.LeaseLock{
		Client:     candidate.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: r.lease.Identity},
	}
	lock.LeaseMeta.Namespace, lock.LeaseMeta.Name = r.sharder.Namespace, electionName
	d := r.lease.LeaseDuration
	worked := make(chan error, 1)
	elector, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: lock, LeaseDuration: d, RenewDeadline: d * 2 / 3, RetryPeriod: d / 10, ReleaseOnCancel: true,
		Callbacks: clientgo.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				worked <- alone(ctx)
				endElection()
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "lost the lead")
					os.Exit(1)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if !elector.IsLeader() {
			endElection()
		}
	})()
	elector.Run(electing)
	select {
	case err := <-worked:
		return err
	default: // it has led too late to work, if at all
		return nil
	}
}

// runBridge is a replica of the release between that one and the sharded one.
func (r *replica) runBridge(ctx context.Context) error {
	elector, s, err := r.newSharder(func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(leaderelection.ExitCodeNotLeader)
	})
	if err != nil {
		return err
	}
	config := r.client("work")
	config.Wrap(elector.WrapTransport)
	alone, err := r.newLoner(config)
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error {
		if err := s.StripLabels(ctx); err != nil {
			return err
		}
		return alone(ctx)
	})
}

// newLoner returns the work of who works on all objects.
func (r *replica) newLoner(config *rest.Config) (func(ctx context.Context) error, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &worker{workOptions: r.work, client: client, mapper: r.mapper, resources: r.sharder.Resources}
	return func(ctx context.Context) error {
		say("alone")
		return w.run(ctx)
	}, nil
}
