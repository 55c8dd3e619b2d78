package nodeconfig_test

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Agents with what matters of the metadata of ClusterLabs' agents 4.12.
var agents = map[string]nodeconfig.AgentMetadata{
	"fence_ipmilan": {
		Actions: []string{"on", "off", "reboot", "status", "monitor", "metadata"},
		Parameters: join(
			address(false, "623"), plug(false), login(false),
			nodeconfig.Parameter{Name: "port_as_ip", Type: nodeconfig.Boolean},
			nodeconfig.Parameter{Name: "lanplus", Type: nodeconfig.Boolean, Default: "0"},
			nodeconfig.Parameter{Name: "cipher", Type: nodeconfig.String},
			nodeconfig.Parameter{Name: "power_wait", Type: nodeconfig.Second, Default: "2"},
			nodeconfig.Parameter{Name: "method", Type: nodeconfig.Select, Options: []string{"onoff", "cycle"}, Default: "onoff"},
			nodeconfig.Parameter{Name: "help", Type: nodeconfig.Boolean},
			nodeconfig.Parameter{Name: "target"},
			nodeconfig.Parameter{Name: "missing_as_off", Type: nodeconfig.Boolean},
		),
		MinSettle: 40 * time.Second,
	},
	"fence_apc_snmp":   {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_eaton_snmp": {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_brocade":    {Parameters: join(address(true, "23"), plug(true), login(true))},
	"fence_aws": {Parameters: join(
		plug(true),
		nodeconfig.Parameter{Name: "region"}, nodeconfig.Parameter{Name: "access_key"}, nodeconfig.Parameter{Name: "secret_key"},
	)},
	"fence_redfish": {Parameters: join(
		address(false, "443"), plug(false), login(true),
		nodeconfig.Parameter{Name: "port_as_ip", Type: nodeconfig.Boolean},
		nodeconfig.Parameter{Name: "systems-uri", Deprecated: true}, nodeconfig.Parameter{Name: "systems_uri", Obsoletes: []string{"systems-uri"}},
	)},
	"fence_dummy": {Parameters: join(
		nodeconfig.Parameter{Name: "status_file", Default: "/tmp/fence_dummy.status"},
		nodeconfig.Parameter{Name: "type", Default: "file"},
	)},
	// An old agent, which knows only the former names, and one with defaults that would hit somebody else's machine.
	"fence_old": {Parameters: join(
		nodeconfig.Parameter{Name: "ipaddr", Required: true}, nodeconfig.Parameter{Name: "port", Required: true},
		nodeconfig.Parameter{Name: "login"}, nodeconfig.Parameter{Name: "passwd"}, nodeconfig.Parameter{Name: "method"},
		nodeconfig.Parameter{Name: "action", Obsoletes: []string{"mode"}},
	)},
	"fence_defaults": {Parameters: join(
		nodeconfig.Parameter{Name: "ip", Required: true, Default: "localhost"}, nodeconfig.Parameter{Name: "plug", Required: true, Default: "1"},
	)},
	"fence_twins":     {Parameters: join(plug(true), nodeconfig.Parameter{Name: "Zone"}, nodeconfig.Parameter{Name: "zone"})},
	"fence_no_off":    {Parameters: plug(true), Actions: []string{"reboot", "status"}},
	"fence_no_status": {Parameters: plug(true), Actions: []string{"on", "off"}},
	// Some versions say that a plug is required even if there are none.
	"fence_ilo": {Parameters: join(address(true, "623"), plug(true), nodeconfig.Parameter{Name: "port_as_ip", Type: nodeconfig.Boolean})},
}

var action = nodeconfig.Parameter{Name: "action", Required: true, Default: "reboot"}

var snmp = []nodeconfig.Parameter{
	{Name: "community"},
	{Name: "snmp_version", Type: nodeconfig.Select, Options: []string{"1", "2c", "3"}},
	{Name: "plug_separator", Default: ","},
	{Name: "switch"},
	{Name: "power_wait", Type: nodeconfig.Second},
	{Name: "retry_on", Type: nodeconfig.Integer, Default: "1"},
}

func address(required bool, port string) []nodeconfig.Parameter {
	return []nodeconfig.Parameter{
		{Name: "ip", Required: required, Obsoletes: []string{"ipaddr"}},
		{Name: "ipaddr", Required: required, Deprecated: true},
		{Name: "ipport", Type: nodeconfig.Integer, Default: port},
	}
}

func plug(required bool) []nodeconfig.Parameter {
	return []nodeconfig.Parameter{
		{Name: "plug", Required: required, Obsoletes: []string{"port"}},
		{Name: "port", Required: required, Deprecated: true},
	}
}

func login(required bool) []nodeconfig.Parameter {
	return []nodeconfig.Parameter{
		{Name: "username", Required: required, Obsoletes: []string{"login"}},
		{Name: "login", Required: required, Deprecated: true},
		{Name: "password", Obsoletes: []string{"passwd"}},
		{Name: "passwd", Deprecated: true},
		{Name: "password_script", Obsoletes: []string{"passwd_script"}},
	}
}

// join makes one list of parameters and lists of them, with the action that each agent has.
func join(parts ...any) []nodeconfig.Parameter {
	all := []nodeconfig.Parameter{action}
	for _, part := range parts {
		switch p := part.(type) {
		case nodeconfig.Parameter:
			all = append(all, p)
		case []nodeconfig.Parameter:
			all = append(all, p...)
		}
	}
	return all
}
