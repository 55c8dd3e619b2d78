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

// Redfish starts a BMC that speaks Redfish over HTTPS and switches the chassis. It knows no plugs.
func (l *Lab) Redfish(chassis *Plug) (*Device, error) {
	name := l.name("redfish")
	const system, reset = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	type object = map[string]any
	routes := http.NewServeMux()
	routes.HandleFunc("GET /redfish/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{"Systems": object{"@odata.id": "/redfish/v1/Systems"}})
	})
	routes.HandleFunc("GET /redfish/v1/Systems", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{"Members": []object{{"@odata.id": system}}})
	})
	routes.HandleFunc("GET "+system, func(w http.ResponseWriter, _ *http.Request) {
		state := "Off"
		if chassis.read() {
			state = "On"
		}
		answer(w, http.StatusOK,
			object{"PowerState": state, "Actions": object{"#ComputerSystem.Reset": object{"target": reset}}})
	})
	routes.HandleFunc("POST "+reset, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ ResetType string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			answer(w, http.StatusBadRequest, object{"error": err.Error()})
			return
		}
		switch body.ResetType {
		case "On":
			chassis.command(true)
		case "ForceOff":
			chassis.command(false)
		case "ForceRestart":
			chassis.command(false)
			chassis.command(true)
		default:
			answer(w, http.StatusBadRequest, object{"error": "unknown ResetType"})
			return
		}
		answer(w, http.StatusOK, object{})
	})
	entrance := &gate{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entrance.pass() // a connection that was there before
		if username, password, _ := r.BasicAuth(); username != Username || password != Password {
			answer(w, http.StatusUnauthorized, object{"error": "unauthorized"})
			return
		}
		routes.ServeHTTP(w, r)
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
		Agent: "fence_redfish",
		Parameters: map[string]string{
			"ip": host, "ipport": port, "username": Username, "password": Password, "power_wait": "0",
		},
		Certificate: certificate,
		freeze:      entrance.freeze, thaw: entrance.thaw,
	}, nil
}
