package main

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// serve answers the kubelet's probes and serves the metrics until stop is called, whereas a manager
// does so only while this process holds its lease.
func serve(address string, r *replica.Replica, log *zap.Logger) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.Handle("/livez", healthz.CheckHandler{Checker: r.Alive})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: r.Ready})
	mux.Handle("/metrics", promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	log.Info("answering probes", zap.Stringer("address", listener.Addr()))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
