package main

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// health answers the kubelet's probes, even while this process waits for its lease and before the
// replica exists. The process is alive unless it still works after it has lost its lease, and ready
// while it is a shard.
type health struct {
	replica atomic.Pointer[replica.Replica]
}

func (h *health) alive(request *http.Request) error {
	if r := h.replica.Load(); r != nil {
		return r.Alive(request)
	}
	return nil
}

func (h *health) ready(request *http.Request) error {
	if r := h.replica.Load(); r != nil {
		return r.Ready(request)
	}
	return errors.New("no name has been claimed yet")
}

// serve answers until stop is called.
func (h *health) serve(address string) (stop func(), err error) {
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
	handle("/livez", h.alive)
	handle("/readyz", h.ready)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
