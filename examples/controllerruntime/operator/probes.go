package main

import (
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// serveProbes answers the kubelet's probes until stop is called. A manager does so only while it
// runs, and it runs only while this process holds its lease.
func serveProbes(address string, r *replica.Replica) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.Handle("/livez", healthz.CheckHandler{Checker: r.Alive})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: r.Ready})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
