package nodeconfig_test

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Agents with what matters of the metadata of ClusterLabs' agents 4.12.
var agents = map[string]agent.Metadata{
	"fence_ipmilan": {
		Actions: []string{"on", "off", "reboot", "status", "monitor", "metadata"},
		Parameters: join(
			address(false, "623"), plug(false), login(false),
			agent.ParameterSpec{Name: "port_as_ip", Type: agent.TypeBoolean},
			agent.ParameterSpec{Name: "lanplus", Type: agent.TypeBoolean, Default: "0"},
			agent.ParameterSpec{Name: "cipher", Type: agent.TypeString},
			agent.ParameterSpec{Name: "power_wait", Type: agent.TypeSecond, Default: "2"},
			agent.ParameterSpec{
				Name: "method", Type: agent.TypeSelect, Options: []string{"onoff", "cycle"},
				Default: "onoff",
			},
			agent.ParameterSpec{Name: "help", Type: agent.TypeBoolean},
			agent.ParameterSpec{Name: "target"},
			agent.ParameterSpec{Name: "missing_as_off", Type: agent.TypeBoolean},
		),
		MinSettle: 40 * time.Second,
	},
	"fence_apc_snmp":   {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_eaton_snmp": {Parameters: join(address(true, "161"), plug(true), login(false), snmp)},
	"fence_brocade":    {Parameters: join(address(true, "23"), plug(true), login(true))},
	"fence_aws": {Parameters: join(
		plug(true),
		agent.ParameterSpec{Name: "region"}, agent.ParameterSpec{Name: "access_key"},
		agent.ParameterSpec{Name: "secret_key"},
	)},
	"fence_redfish": {Parameters: join(
		address(false, "443"), plug(false), login(true),
		agent.ParameterSpec{Name: "port_as_ip", Type: agent.TypeBoolean},
		agent.ParameterSpec{Name: "systems-uri", Deprecated: true},
		agent.ParameterSpec{Name: "systems_uri", Obsoletes: []string{"systems-uri"}},
	)},
	"fence_dummy": {Parameters: join(
		agent.ParameterSpec{Name: "status_file", Default: "/tmp/fence_dummy.status"},
		agent.ParameterSpec{Name: "type", Default: "file"},
	)},
	// An old agent, which knows only the former names, and one with defaults that would hit
	// somebody else's machine.
	"fence_old": {Parameters: join(
		agent.ParameterSpec{Name: "ipaddr", Required: true}, agent.ParameterSpec{Name: "port", Required: true},
		agent.ParameterSpec{Name: "login"}, agent.ParameterSpec{Name: "passwd"}, agent.ParameterSpec{Name: "method"},
		agent.ParameterSpec{Name: "action", Obsoletes: []string{"mode"}},
	)},
	"fence_defaults": {Parameters: join(
		agent.ParameterSpec{Name: "ip", Required: true, Default: "localhost"},
		agent.ParameterSpec{Name: "plug", Required: true, Default: "1"},
	)},
	"fence_twins": {Parameters: join(plug(true), agent.ParameterSpec{Name: "Zone"},
		agent.ParameterSpec{Name: "zone"})},
	"fence_no_off":    {Parameters: plug(true), Actions: []string{"reboot", "status"}},
	"fence_no_status": {Parameters: plug(true), Actions: []string{"on", "off"}},
	// Some versions say that a plug is required even if there are none.
	"fence_ilo": {Parameters: join(address(true, "623"), plug(true),
		agent.ParameterSpec{Name: "port_as_ip", Type: agent.TypeBoolean})},
}

var action = agent.ParameterSpec{Name: "action", Required: true, Default: "reboot"}

var snmp = []agent.ParameterSpec{
	{Name: "community"},
	{Name: "snmp_version", Type: agent.TypeSelect, Options: []string{"1", "2c", "3"}},
	{Name: "plug_separator", Default: ","},
	{Name: "switch"},
	{Name: "power_wait", Type: agent.TypeSecond},
	{Name: "retry_on", Type: agent.TypeInteger, Default: "1"},
}

func address(required bool, port string) []agent.ParameterSpec {
	return []agent.ParameterSpec{
		{Name: "ip", Required: required, Obsoletes: []string{"ipaddr"}},
		{Name: "ipaddr", Required: required, Deprecated: true},
		{Name: "ipport", Type: agent.TypeInteger, Default: port},
	}
}

func plug(required bool) []agent.ParameterSpec {
	return []agent.ParameterSpec{
		{Name: "plug", Required: required, Obsoletes: []string{"port"}},
		{Name: "port", Required: required, Deprecated: true},
	}
}

func login(required bool) []agent.ParameterSpec {
	return []agent.ParameterSpec{
		{Name: "username", Required: required, Obsoletes: []string{"login"}},
		{Name: "login", Required: required, Deprecated: true},
		{Name: "password", Obsoletes: []string{"passwd"}},
		{Name: "passwd", Deprecated: true},
		{Name: "password_script", Obsoletes: []string{"passwd_script"}},
	}
}

// join makes one list of parameters and lists of them, with the action that each agent has.
func join(parts ...any) []agent.ParameterSpec {
	all := []agent.ParameterSpec{action}
	for _, part := range parts {
		switch p := part.(type) {
		case agent.ParameterSpec:
			all = append(all, p)
		case []agent.ParameterSpec:
			all = append(all, p...)
		}
	}
	return all
}
