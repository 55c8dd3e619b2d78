package fencing_test

import (
	"context"
	"errors"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// A fencer: one of several replicas on nodes of the control plane. Only the leader fences.
func ExampleNew() {
	fencer := func(ctx context.Context, config *rest.Config, agents fencing.Agents) error {
		leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
		if err != nil {
			return err
		}
		elector, err := leaderelection.New(leases, leaderelection.Config{Namespace: "fencing", Name: "fencer"})
		if err != nil {
			return err
		}
		guarded := rest.CopyConfig(config)
		guarded.QPS = -1
		guarded.Wrap(elector.WrapTransport)
		kube, err := kubernetes.NewForConfig(guarded)
		if err != nil {
			return err
		}
		dyn, err := dynamic.NewForConfig(guarded)
		if err != nil {
			return err
		}
		controller, err := fencing.New(kube, dyn, fencing.Config{
			Namespace:  "fencing",
			Node:       os.Getenv("NODE_NAME"),
			Leadership: elector,
			Agents:     agents,
			Limits:     api.Limits{MaxConcurrent: 2},
		})
		if err != nil {
			return err
		}
		err = elector.Run(ctx, controller.Run)
		if errors.Is(err, fencing.ErrOwnHost) {
			os.Exit(1) // another replica leads; this one is of use again when its node is
		}
		return err
	}
	_ = fencer
}
