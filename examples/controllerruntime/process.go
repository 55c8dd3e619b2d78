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

// managerOptions returns the options that both managers have in common.
func managerOptions(namespace string) ctrl.Options {
	return ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: server.Options{BindAddress: "0"}, // they are served beside the probes
		// Start returns when all work has ended, however long that takes. With a limit it would
		// return an error while some work still runs, and the lease could not be released.
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		// In the second term of this process there has been a controller of that name.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
}

// serveProbes answers the kubelet's probes and serves the metrics until stop is called, whereas a
// manager does so only while this process holds its lease.
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

// newLogger returns a logger that writes every line as JSON to standard output, because a journal
// would lose lines with sampling, zap's default.
func newLogger() (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.OutputPaths, config.Sampling = []string{"stdout"}, nil
	return config.Build()
}
