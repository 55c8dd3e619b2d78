package docs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

var (
	_ = explain
	_ = recorder
)

func TestUninstallThatIsNotDoneIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	assert.ErrorContains(t, uninstall(ctx, apisim.NewServer().Client("admin").Config(), replica.Config{
		Namespace: "default", Ring: "r", Mapper: mapper,
		Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
	}), "the ring was not removed")
}

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
	done := errors.New("the ring was not removed: another replica leads")
	err = r.Elector.Run(ctx, func(ctx context.Context) error {
		done = r.Sharder.StripLabels(ctx) // waits for shards that live
		return done
	})
	return errors.Join(done, err) // Run also returns nil when ctx has ended
}
