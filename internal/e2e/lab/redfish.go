package lab

import (
	"encoding/json"
	"net/http"
)

// Redfish starts a BMC that speaks Redfish over HTTPS and switches the chassis. It knows no plugs.
func (l *Lab) Redfish(chassis *Plug) (*Device, error) {
	name := l.name("redfish")
	const system, reset = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
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
	d, err := l.web(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if username, password, _ := r.BasicAuth(); username != Username || password != Password {
			answer(w, http.StatusUnauthorized, object{"error": "unauthorized"})
			return
		}
		routes.ServeHTTP(w, r)
	}))
	if err != nil {
		return nil, err
	}
	d.Agent, d.Parameters["power_wait"] = "fence_redfish", "0"
	return d, nil
}
