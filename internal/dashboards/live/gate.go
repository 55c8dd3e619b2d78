package live

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// gate is an API server that can refuse to show a resource.
type gate struct {
	next    http.Handler
	refused atomic.Pointer[string] // nil: none
	server  *http.Server
	address string
}

func newGate(next http.Handler) (*gate, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{next: next, address: listener.Addr().String()}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	go func() { _ = g.server.Serve(listener) }()
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := g.refused.Load()
	if resource == nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/"+*resource) {
		g.next.ServeHTTP(w, r)
		return
	}
	status := apierrors.NewForbidden(schema.GroupResource{Resource: *resource}, "", nil).Status()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
