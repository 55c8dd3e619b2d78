package main

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// serveHealth answers the kubelet's probes until stop is called: also while this process waits for its lease. It is alive unless it holds
// on to what it has lost, and ready when it is a shard.
func serveHealth(address string, lease *shardlease.Lease, elector *leaderelection.Elector) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	mux := http.NewServeMux()
	handle := func(path string, check func(*http.Request) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := check(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		})
	}
	alive := func(r *http.Request) error { return errors.Join(lease.Check(r), elector.Check(r)) }
	handle("/livez", alive)
	handle("/readyz", func(r *http.Request) error {
		_, err := lease.Term()
		return errors.Join(err, alive(r))
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
