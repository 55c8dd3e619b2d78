package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The configuration is valid: without an API server, run waits for one until it is asked to end.
func TestRunWaitsForTheAPIServer(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "default")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, &rest.Config{Host: "http://127.0.0.1:1"}, nil, ctrl.Options{
			HealthProbeBindAddress: "127.0.0.1:0", Metrics: server.Options{BindAddress: "0"},
		}, zap.NewNop())
	}()
	select {
	case err := <-ended:
		assert.Fail(t, "it has not waited", "%v", err)
	case <-time.After(time.Second):
	}
	cancel()
	assert.NoError(t, <-ended)
}
