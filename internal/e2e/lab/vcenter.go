package lab

import (
	"maps"
	"net/http"
	"slices"
)

// VCenter starts a VMware vCenter with virtual machines, whose names are their plugs. It knows the
// three states of its REST API: POWERED_ON, POWERED_OFF and SUSPENDED.
func (l *Lab) VCenter(machines map[string]*Plug) (*Device, error) {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /rest/com/vmware/cis/session", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{"value": "a session"})
	})
	routes.HandleFunc("DELETE /rest/com/vmware/cis/session", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{})
	})
	routes.HandleFunc("GET /rest/vcenter/vm", func(w http.ResponseWriter, r *http.Request) {
		found := []object{}
		for name, machine := range machines {
			if !slices.Contains(r.URL.Query()["filter.names"], name) {
				continue
			}
			state := "POWERED_OFF"
			switch {
			case machine.Suspended():
				state = "SUSPENDED"
			case machine.read():
				state = "POWERED_ON"
			}
			found = append(found, object{"name": name, "vm": name, "power_state": state})
		}
		answer(w, http.StatusOK, object{"value": found})
	})
	routes.HandleFunc("POST /rest/vcenter/vm/{vm}/power/{action}", func(w http.ResponseWriter, r *http.Request) {
		machine, ok := machines[r.PathValue("vm")]
		if action := r.PathValue("action"); ok && (action == "start" || action == "stop") {
			machine.command(action == "start")
			answer(w, http.StatusOK, object{})
			return
		}
		answer(w, http.StatusNotFound, object{"value": object{"messages": []object{{"default_message": "not found"}}}})
	})
	d, err := l.web(l.name("vcenter"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		username, password, _ := r.BasicAuth()
		if r.Header.Get("vmware-api-session-id") == "" && (username != Username || password != Password) {
			answer(w, http.StatusUnauthorized, object{"value": object{"messages": []object{{"default_message": "no"}}}})
			return
		}
		routes.ServeHTTP(w, r)
	}))
	if err != nil {
		return nil, err
	}
	d.Agent = "fence_vmware_rest"
	maps.Copy(d.Parameters, map[string]string{"power_wait": "0", "ssl_insecure": "1", "shell_timeout": "20"})
	return d, nil
}
