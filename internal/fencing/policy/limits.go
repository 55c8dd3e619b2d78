package policy

import "github.com/bellwether-k8s/bellwether/fencing/api"

// readyTrigger is the condition that starts a fence unless the target has another.
const readyTrigger = "Ready"

// usable returns l with defaults. If l is invalid, which no gate allows, it returns the defaults.
func usable(l api.Limits) api.Limits {
	if l.Validate() != nil {
		l = api.Limits{}
	}
	return l.WithDefaults()
}
