package lab

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// web starts a device that is spoken to by HTTPS. It has no agent yet.
func (l *Lab) web(name string, handler http.Handler) (*Device, error) {
	entrance := &gate{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entrance.pass() // a connection that was there before
		handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	server.Listener = gatedListener{server.Listener, entrance}
	server.StartTLS()
	l.atEnd(func() {
		_ = entrance.thaw()
		server.CloseClientConnections()
		server.Close()
	})
	certificate := filepath.Join(l.dir, name+".pem")
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(certificate, encoded, 0o600); err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	return &Device{
		Parameters:  map[string]string{"ip": host, "ipport": port, "username": Username, "password": Password},
		Certificate: certificate,
		freeze:      entrance.freeze, thaw: entrance.thaw,
	}, nil
}

type object = map[string]any

// answer sends a body as JSON.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
