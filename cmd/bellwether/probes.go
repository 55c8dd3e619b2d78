package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// serveProbes answers kubelets at an address until the process ends: 200, or 503 with the error. It also answers
// with metrics, unless they are nil. It returns the address with its port.
func serveProbes(address string, ready, live func() error, metrics http.Handler) (net.Addr, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-address: %w", err)
	}
	probes := http.NewServeMux()
	for path, check := range map[string]func() error{"/readyz": ready, "/healthz": live} {
		probes.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(w, "ok")
		})
	}
	if metrics != nil {
		probes.Handle("/metrics", metrics)
	}
	server := &http.Server{Handler: probes, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
			panic(err) // a kubelet would end this process later
		}
	}()
	return listener.Addr(), nil
}
