package docs_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

var (
	_ = explain
	_ = recorder
	_ = uninstall
)

func explain(ctx context.Context, s *sharder.Sharder, object api.ObjectRef) error {
	x, err := s.Explain(ctx, object)
	if err != nil {
		return err
	}
	fmt.Printf("with %q, belongs to %q: %s, because %s\n", x.Label, x.Target, x.Verb, x.Why)
	forecast, err := s.Plan(ctx) // what would move if the sharder ran now
	if err != nil {
		return err
	}
	for _, move := range forecast.Moves {
		fmt.Printf("%d objects from %q to %q\n", move.Objects, move.From, move.To)
	}
	return nil
}

func recorder(ctx context.Context, client kubernetes.Interface) (events.EventRecorder, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	return broadcaster.NewRecorder(scheme.Scheme, "my-controller"), nil
}

func uninstall(ctx context.Context, config *rest.Config, c replica.Config) error {
	r, err := replica.New(config, c) // as the controller does
	if err != nil {
		return err
	}
	return r.Elector.Run(ctx, r.Sharder.StripLabels) // waits for shards that live
}
