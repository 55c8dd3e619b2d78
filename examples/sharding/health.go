package main

import (
	"net"
	"net/http"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// serveHealth answers the kubelet's probes until stop is called: also while this process waits for its lease. It is alive unless it holds
// on to what it has lost, and ready when it is a shard.
func serveHealth(address string, r *replica.Replica) (stop func(), err error) {
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
	handle("/livez", r.Alive)
	handle("/readyz", r.Ready)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
