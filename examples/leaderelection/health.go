package main

import (
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// serveHealth answers the kubelet's probes until stop is called, even while this process is a
// candidate. Both ask alive, because a candidate is ready to take over.
func serveHealth(address string, alive func(*http.Request) error, log *zap.Logger) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := alive(r); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		})
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	log.Info("answering probes", zap.Stringer("address", listener.Addr()))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
