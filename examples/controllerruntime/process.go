package main

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// managerOptions are what both managers have in common.
func managerOptions(namespace string) ctrl.Options {
	return ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: server.Options{BindAddress: "0"}, // they are served beside the probes
		// Start returns when all work has ended, however long that takes: with a limit it would return an error while some goes on, and the
		// lease could not be released.
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		// The second time that this process is elected, there has been a controller of that name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
}

// serveProbes answers the kubelet's probes, and serves the metrics, until stop is called. A manager would do so only while it runs, which is while
// this process holds its lease.
func serveProbes(address string, r *replica.Replica, log *zap.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	mux := http.NewServeMux()
	mux.Handle("/livez", healthz.CheckHandler{Checker: r.Alive})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: r.Ready})
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	log.Info("answering probes", zap.Stringer("address", listener.Addr()))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}

// newLogger returns a logger that writes JSON to standard output, every line of it: zap would leave out some of a journal.
func newLogger() (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths, config.Sampling = []string{"stdout"}, nil
	return config.Build()
}
