package config_test

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/config"
)

// Agents with what matters of the metadata of ClusterLabs' agents 4.12.
var agents = map[string]config.AgentMetadata{
	"fence_ipmilan": {
		Actions: []string{"on", "off", "reboot", "status", "monitor", "metadata"},
		Parameters: join(
			address(false, "623"), plug(false), login(false),
			config.Parameter{Name: "port_as_ip", Type: config.Boolean},
			config.Parameter{Name: "lanplus", Type: config.Boolean, Default: "0"},
			config.Parameter{Name: "cipher", Type: config.String},
			config.Parameter{Name: "power_wait", Type: config.Second, Default: "2"},
			config.Parameter{Name: "method", Type: config.Select, Options: []string{"onoff", "cycle"}, Default: "onoff"},
			config.Parameter{Name: "help", Type: config.Boolean},
			config.Parameter{Name: "target"},
			config.Parameter{Name: "missing_as_off", Type: config.Boolean},
		),
		MinSettle: 40 * time.Second,
	},
	"fence_apc_snmp":   {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_eaton_snmp": {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_brocade":    {Parameters: join(address(true, "23"), plug(true), login(true))},
	"fence_aws": {Parameters: join(
		plug(true),
		config.Parameter{Name: "region"}, config.Parameter{Name: "access_key"}, config.Parameter{Name: "secret_key"},
	)},
	"fence_redfish": {Parameters: join(
		address(false, "443"), plug(false), login(true),
		config.Parameter{Name: "port_as_ip", Type: config.Boolean},
		config.Parameter{Name: "systems-uri", Deprecated: true}, config.Parameter{Name: "systems_uri", Obsoletes: []string{"systems-uri"}},
	)},
	"fence_dummy": {Parameters: join(
		config.Parameter{Name: "status_file", Default: "/tmp/fence_dummy.status"},
		config.Parameter{Name: "type", Default: "file"},
	)},
	// An old agent, which knows only the former names, and one with defaults that would hit somebody else's machine.
	"fence_old": {Parameters: join(
		config.Parameter{Name: "ipaddr", Required: true}, config.Parameter{Name: "port", Required: true},
		config.Parameter{Name: "login"}, config.Parameter{Name: "passwd"}, config.Parameter{Name: "method"},
		config.Parameter{Name: "action", Obsoletes: []string{"mode"}},
	)},
	"fence_defaults": {Parameters: join(
		config.Parameter{Name: "ip", Required: true, Default: "localhost"}, config.Parameter{Name: "plug", Required: true, Default: "1"},
	)},
	"fence_twins":     {Parameters: join(plug(true), config.Parameter{Name: "Zone"}, config.Parameter{Name: "zone"})},
	"fence_no_off":    {Parameters: plug(true), Actions: []string{"reboot", "status"}},
	"fence_no_status": {Parameters: plug(true), Actions: []string{"on", "off"}},
	// Some versions say that a plug is required even if there are none.
	"fence_ilo": {Parameters: join(address(true, "623"), plug(true), config.Parameter{Name: "port_as_ip", Type: config.Boolean})},
}

var action = config.Parameter{Name: "action", Required: true, Default: "reboot"}

var snmp = []config.Parameter{
	{Name: "community"},
	{Name: "snmp_version", Type: config.Select, Options: []string{"1", "2c", "3"}},
	{Name: "plug_separator", Default: ","},
	{Name: "switch"},
	{Name: "power_wait", Type: config.Second},
	{Name: "retry_on", Type: config.Integer, Default: "1"},
}

func address(required bool, port string) []config.Parameter {
	return []config.Parameter{
		{Name: "ip", Required: required, Obsoletes: []string{"ipaddr"}},
		{Name: "ipaddr", Required: required, Deprecated: true},
		{Name: "ipport", Type: config.Integer, Default: port},
	}
}

func plug(required bool) []config.Parameter {
	return []config.Parameter{
		{Name: "plug", Required: required, Obsoletes: []string{"port"}},
		{Name: "port", Required: required, Deprecated: true},
	}
}

func login(required bool) []config.Parameter {
	return []config.Parameter{
		{Name: "username", Required: required, Obsoletes: []string{"login"}},
		{Name: "login", Required: required, Deprecated: true},
		{Name: "password", Obsoletes: []string{"passwd"}},
		{Name: "passwd", Deprecated: true},
		{Name: "password_script", Obsoletes: []string{"passwd_script"}},
	}
}

// join makes one list of parameters and lists of them, with the action that each agent has.
func join(parts ...any) []config.Parameter {
	all := []config.Parameter{action}
	for _, part := range parts {
		switch p := part.(type) {
		case config.Parameter:
			all = append(all, p)
		case []config.Parameter:
			all = append(all, p...)
		}
	}
	return all
}
