package nodeconfig_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Where things stand in what the cases of TestEveryRule change.
const (
	object   = "fence-config-node-w1"
	settings = object + "/config.properties"
	bmcOff   = object + "/fence-method-bmc-off"
	bmcOn    = object + "/fence-method-bmc-on"
	ipmi     = "fence-method-template-ipmi"
	template = ipmi + "/template.properties"
	apc      = "fence-method-template-apc"
)

// changes are made to objects: each is a place, what is there, and what comes there instead.
// Nothing there appends a line, "-" as what comes removes the key.
type changes [][3]string

func (c changes) apply(t *testing.T, objects map[string]map[string]string) {
	t.Helper()
	for _, change := range c {
		name, key, _ := strings.Cut(change[0], "/")
		if objects[name] == nil {
			objects[name] = map[string]string{}
		}
		switch data := objects[name]; {
		case change[2] == "-":
			delete(data, key)
		case change[1] == "":
			data[key] += "\n" + change[2]
		default:
			require.Contains(t, data[key], change[1])
			data[key] = strings.ReplaceAll(data[key], change[1], change[2])
		}
	}
}

type rule struct {
	name    string
	changes changes
	strict  bool
	nodes   []nodeconfig.Node // besides w1
	want    []string          // the beginning of each error
	warns   []string
}

var rules = []rule{
	{
		name: "line without =", changes: changes{{settings, "", "retries 5"}},
		want: []string{settings +
			`:6: line must be key=value, a comment or empty (got "9 bytes without =")`},
	}, {
		name: "key that begins with a digit", changes: changes{{settings, "", "2retries=5"}},
		want: []string{settings + ":6: key must begin with a letter"},
	}, {
		name: "key with a blank in it", changes: changes{{settings, "", "boot grace=5m"}},
		want: []string{settings + ":6: key must begin with a letter"},
	}, {
		name: "key twice", changes: changes{{settings, "", "recovery=mark-schedulable"}},
		want: []string{settings +
			`:6: key must be given once, and is in line 5 already (got "recovery")`},
	}, {
		name: "key twice, in other letters", changes: changes{{settings, "", "Power-Management=bmc-off bmc-on"}},
		want: []string{settings + ":6: key must be given once, and is in line 3 already"},
	}, {
		name:    "key twice, once in the proposal's spelling",
		changes: changes{{settings, "", "power-managment=bmc-off bmc-on"}},
		want:    []string{settings + ":6: key must be given once, and is in line 3 already"},
	}, {
		name: "parameter twice, by its old and its new name", changes: changes{{bmcOff, "", "ipaddr=192.0.2.1"}},
		want: []string{bmcOff + ":4: parameter ip must be given once, and is in line 2 already"},
	}, {
		name: "method twice, in other letters",
		changes: changes{{
			object + "/fence-method-BMC_off", "",
			"action=off\ntemplate=" + ipmi + "\nip=bmc-w1.example",
		}},
		want: []string{object + "/fence-method-bmc-off: method must be defined once"},
	}, {
		name:    "method with the name of a built-in one",
		changes: changes{{object + "/fence-method-mark-schedulable", "", "action=off"}},
		want: []string{object + "/fence-method-mark-schedulable: method must not have the name of " +
			"a built-in one"},
	}, {
		name: "method with template and agent", changes: changes{{bmcOff, "", "agent=fence_ipmilan"}},
		want: []string{bmcOff + ":4: method must have template or agent, not both"},
	}, {
		name: "must_success in both spellings", changes: changes{{template, "", "must_success=yes\nmust_sucess=yes"}},
		want: []string{template + ":8: key must be given once, by one of its spellings"},
	}, {
		name: "unknown key", changes: changes{{settings, "", "retires=5"}},
		want: []string{settings + `:6: key is not known here; did you mean retries? (got "retires")`},
	}, {
		name: "unknown data key", changes: changes{{object + "/config.propertes", "", "x=y"}},
		want: []string{object + "/config.propertes: data key must be config.properties or " +
			"fence-method-<name>; did you mean config.properties?"},
	}, {
		name: "unknown data key of a template", changes: changes{{ipmi + "/x", "", "x=y"}},
		want: []string{ipmi + "/x: data key must be template.properties"},
	}, {
		name: "action in a template", changes: changes{{template, "", "action=off"}},
		want: []string{template + ":7: key belongs into methods"},
	}, {
		name: "plug in a template, by its old name", changes: changes{{template, "", "port=5"}},
		want: []string{template + ":7: key belongs into methods"},
	}, {
		name: "control character", changes: changes{{settings, "", "retries=5\x00"}},
		want: []string{settings + `:6: line must be plain UTF-8 text (got "control character U+0000 at ` +
			`byte 10")`},
	}, {
		name: "invalid UTF-8", changes: changes{{settings, "", "retries=5\xff"}},
		want: []string{settings + ":6: line must be plain UTF-8 text"},
	}, {
		name: "line break of another kind", changes: changes{{bmcOff, "", "cipher=3\raction=on"}},
		want: []string{bmcOff + ":4: line must be plain UTF-8 text"},
	}, {
		name: "byte order mark", changes: changes{{settings, "node_name=w1", "\ufeffnode_name=w1"}},
		want: []string{
			settings + ":1: line must be plain UTF-8 text",
			settings + ": key node_name is required",
		},
	}, {
		name: "long line", changes: changes{{settings, "", "# " + strings.Repeat("x", 4095)}},
		want: []string{settings + `:6: line must have at most 4096 bytes (got "4097 bytes")`},
	}, {
		name:    "trailing backslash",
		changes: changes{{settings, "recovery=mark-schedulable", "recovery=mark-schedulable \\\nclean-pods"}},
		want: []string{
			settings + ":5: value must be in quotes if it ends in",
			settings + ":6: line must be key=value, a comment or empty",
			settings + ": key recovery is required",
		},
	}, {
		name: "missing setting", changes: changes{{settings, "recovery=mark-schedulable", ""}},
		want: []string{settings + ": key recovery is required"},
	}, {
		name: "missing action: agents would reboot", changes: changes{{bmcOff, "action=off", ""}},
		want: []string{bmcOff + ": key action is required"},
	}, {
		name: "missing template", changes: changes{{bmcOff, "template=" + ipmi, ""}},
		want: []string{bmcOff + ": key template is required"},
	}, {
		name: "node_name of another node", changes: changes{{settings, "node_name=w1", "node_name=w2"}},
		want: []string{settings + `:1: node_name must be w1 or [NODE_NAME] (got "w2")`},
	}, {
		name: "two objects of one node", changes: changes{{"fence-config-w1/config.properties", "", "node_name=w1"}},
		want:  []string{object + `: node must have one object of its own (got "fence-config-w1")`},
		warns: []string{"fence-config-w1: object is the configuration of no node"},
	}, {
		name: "two types with one object",
		changes: changes{{
			"fence-config-type-big-node/config.properties", "",
			"node_name=[NODE_NAME]\nisolation=\npower_management=\nrecovery=",
		}},
		nodes: []nodeconfig.Node{{Name: "w2", Type: "big_node"}, {Name: "w3", Type: "Big-Node"}},
		warns: []string{`fence-config-type-big-node: object must be for one value of the label type ` +
			`(got "Big-Node, big_node")`},
	}, {
		name: "unknown method", changes: changes{{settings, "bmc-off bmc-on", "bcm-off bmc-on"}},
		want: []string{settings +
			`:3: method must be built in or defined as fence-method-bcm-off; did you mean bmc-off? (got "bcm-off")`},
		warns: []string{bmcOff + ": method is in no step"},
	}, {
		name: "blank of another kind", changes: changes{{settings, "isolation=mark-unschedulable", "isolation=\u00a0"}},
		want: []string{settings + `:2: method must be built in or defined as fence-method-`},
	}, {
		name: "method twice in a step", changes: changes{{settings, "bmc-off bmc-on", "bmc-off BMC_off bmc-on"}},
		want: []string{settings + `:3: method must be in a step once (got "BMC_off")`},
	}, {
		name: "comma between methods", changes: changes{{settings, "bmc-off bmc-on", "bmc-off,bmc-on"}},
		want: []string{settings + ":3: methods must be separated by blanks"},
		warns: []string{
			bmcOff + ": method is in no step",
			bmcOn + ": method is in no step",
		},
	}, {
		name: "unknown template", changes: changes{{bmcOff, ipmi, "fence-method-template-impi"}},
		want: []string{bmcOff +
			":1: template must be a ConfigMap fence-method-template-<device> of the namespace; did you mean " +
			"fence-method-template-ipmi?"},
	}, {
		name: "template that is not one", changes: changes{{bmcOff, ipmi, object}},
		want: []string{bmcOff + ":1: template must be a ConfigMap fence-method-template-<device> of the namespace"},
	}, {
		name: "template without agent", changes: changes{{template, "agent_name=fence_ipmilan", ""}},
		want: []string{template + ": key agent_name is required"},
	}, {
		name: "unknown agent", changes: changes{{template, "fence_ipmilan", "fence_impilan"}},
		want: []string{template + `:1: agent is not installed (got "fence_impilan")`},
	}, {
		name: "unknown parameter", changes: changes{{template, "", "ciphre=3"}},
		want: []string{template +
			":7: agent fence_ipmilan has no such parameter; did you mean cipher?"},
	}, {
		name: "parameter that the agent has twice",
		changes: changes{
			{template, "fence_ipmilan", "fence_twins\nzone=a"},
			{template, "", "#"},
			{bmcOff, "ip=bmc-{{.NodeName}}.example", "plug=1"},
			{bmcOn, "ip=bmc-{{.NodeName}}.example", "plug=1"},
		},
		want: []string{
			template + ":2: agent fence_twins has several parameters of that name",
			template + ":3: agent fence_twins has no such parameter",
			template + ":4: agent fence_twins has no such parameter",
			template + ":5: agent fence_twins has no such parameter",
			template + ":6: agent fence_twins has no such parameter",
			template + ":7: agent fence_twins has no such parameter",
		},
	}, {
		name: "missing parameter", changes: changes{{object + "/fence-method-pdu-a-off", "plug=5", ""}},
		want: []string{object +
			"/fence-method-pdu-a-off: parameter plug is required by fence_apc_snmp"},
	}, {
		name: "boolean", changes: changes{{template, "lanplus=1", "lanplus=2"}},
		want: []string{template +
			`:4: lanplus must be 1, yes, on, true, 0, no, off or false (got "2")`},
	}, {
		name: "integer", changes: changes{{template, "", "ipport=0x1"}},
		want: []string{template + `:7: ipport must be a whole number (got "0x1")`},
	}, {
		name: "seconds", changes: changes{{template, "power_wait=0", "power_wait=-1"}},
		want: []string{template + ":6: power_wait must be a whole number of seconds"},
	}, {
		name: "select", changes: changes{{
			"fence-method-template-eaton/template.properties", "snmp_version=1",
			"snmp_version=2",
		}},
		want: []string{"fence-method-template-eaton/template.properties:3: snmp_version must be one of " +
			"1, 2c, 3"},
	}, {
		name: "empty parameter", changes: changes{{template, "cipher=3", "cipher="}},
		want: []string{template +
			`:5: parameter must have a value, or "" if an empty one is meant (got "cipher")`},
	}, {
		name: "parameter that is on if it is there", changes: changes{{template, "", "port_as_ip=0"}},
		want: []string{template + ":7: port_as_ip must be 1 or be left out: agents take 0 for 1"},
	}, {
		name: "plug of an agent without plugs", changes: changes{{bmcOff, "", "plug=1"}},
		want: []string{bmcOff + ":4: plug must be left out without port_as_ip=1: fence_ipmilan has " +
			"no plugs, and ignores it"},
	}, {
		name: "parameter that makes the agent do nothing", changes: changes{{template, "cipher=3", "help=1"}},
		want: []string{template + ":5: parameter must not be set: the agent would do nothing else"},
	}, {
		name: "plug that need not exist", changes: changes{{template, "cipher=3", "missing-as-off=0"}},
		want: []string{template +
			":5: parameter must not be set: a plug that does not exist would read off"},
	}, {
		name: "action from a Secret", changes: changes{{bmcOff, "", "action.secret=bmc/password"}},
		want: []string{bmcOff + ":4: parameter must not be set"},
	}, {
		name: "action by its old name",
		changes: changes{
			{bmcOff, "template=" + ipmi, "agent=fence_old\nmode=on\nplug=1"},
			{bmcOn, "template=" + ipmi, "agent=fence_old\nplug=1"},
		},
		want: []string{bmcOff + ":2: parameter must not be set: the method says that"},
	}, {
		name: "bad action", changes: changes{{bmcOff, "action=off", "action=status"}},
		want: []string{bmcOff + ":3: action must be on, off, or reboot"},
	}, {
		name: "agent that cannot do it",
		changes: changes{{
			"fence-method-template-apc/template.properties",
			"fence_apc_snmp\nip=pdu-a.example\ncommunity.secret=pdu/community", "fence_no_off",
		}},
		want: []string{
			object + `/fence-method-pdu-a-off: agent fence_no_off must know off and status (got ` +
				`"reboot, status")`,
			object + `/fence-method-pdu-a-on: agent fence_no_off must know on and status (got ` +
				`"reboot, status")`,
		},
	}, {
		name: "agent that cannot be asked",
		changes: changes{{
			"fence-method-template-apc/template.properties",
			"fence_apc_snmp\nip=pdu-a.example\ncommunity.secret=pdu/community", "fence_no_status",
		}},
		want: []string{
			object + `/fence-method-pdu-a-off: agent fence_no_status must know off and status (got ` +
				`"on, off")`,
			object + `/fence-method-pdu-a-on: agent fence_no_status must know on and status (got "on, ` +
				`off")`,
		},
	}, {
		name: "off after on", changes: changes{{
			settings, "pdu-a-off pdu-b-off pdu-a-on pdu-b-on",
			"pdu-a-off pdu-a-on pdu-b-off pdu-b-on",
		}},
		want: []string{settings + `:4: every off must come before every on, and pdu-a-on comes ` +
			`before (got "pdu-b-off")`},
	}, {
		name: "off without on", changes: changes{{settings, " bmc-on", ""}},
		want: []string{settings +
			`:3: what is switched off must be switched on in the same level, but for power_on=never (got "bmc-off")`},
		warns: []string{bmcOn + ": method is in no step"},
	}, {
		name:    "off whose on is of another plug",
		changes: changes{{object + "/fence-method-pdu-a-on", "plug=5", "plug=4"}},
		want: []string{
			settings + ":4: what is switched off must be switched on in the same level, but for power_on=never",
			settings + `:4: what is switched on must be switched off in the same level (got ` +
				`"pdu-a-on")`,
		},
	}, {
		name:    "isolation that recovery does not end",
		changes: changes{{settings, "isolation=mark-unschedulable", "isolation=pdu-a-off"}},
		want: []string{
			settings + ":2: what isolation switches off must be switched on by recovery",
			settings + ":4: plug must not be that of isolation: what was switched off is not switched off again",
		},
	}, {
		name: "power management without off", changes: changes{{settings, "bmc-off bmc-on", "clean-pods"}},
		want: []string{settings +
			`:3: power management must switch something off, or be empty (got "clean-pods")`},
		warns: []string{
			bmcOff + ": method is in no step",
			bmcOn + ": method is in no step",
		},
	}, {
		name: "on in isolation", changes: changes{{settings, "isolation=mark-unschedulable", "isolation=bmc-on"}},
		want: []string{settings + `:2: isolation must not switch anything on (got "bmc-on")`},
	}, {
		name: "reboot in isolation",
		changes: changes{
			{settings, "isolation=mark-unschedulable", "isolation=bmc-off"},
			{bmcOff, "action=off", "action=reboot"},
			{settings, "bmc-off bmc-on", "bmc-off"},
			{settings, "recovery=mark-schedulable", "recovery=bmc-on"},
		},
		want: []string{
			settings + `:2: isolation must not switch anything on (got "bmc-off")`,
			settings + ":3: plug must not be that of isolation: what was switched off is not switched off again",
		},
	}, {
		name: "off in recovery", changes: changes{{settings, "recovery=mark-schedulable", "recovery=bmc-off"}},
		want: []string{settings + `:5: recovery must not switch anything off (got "bmc-off")`},
	}, {
		name:    "deletion of a node that is switched on again",
		changes: changes{{settings, "bmc-off bmc-on", "bmc-off bmc-on delete-node"}},
		want:    []string{settings + ":3: method needs power_on=never"},
	}, {
		name:    "deletion of a node before its machine is off",
		changes: changes{{settings, "bmc-off bmc-on", "delete-node bmc-off bmc-on"}, {settings, "", "power_on=never"}},
		want:    []string{settings + ":3: method must be the last of power_management"},
	}, {
		name: "gap between levels", changes: changes{{settings, "power_management.2", "power_management.3"}},
		want: []string{settings + `:4: level must be 2: the one before it is missing (got "3")`},
	}, {
		name:    "fallback for nothing",
		changes: changes{{settings, "power_management=bmc-off bmc-on", "power_management="}},
		want:    []string{settings + `:4: level must be 1`},
		warns: []string{
			bmcOff + ": method is in no step",
			bmcOn + ": method is in no step",
		},
	}, {
		name: "fallback that is empty", changes: changes{{settings, "", "power_management.3="}},
		want: []string{settings + ":6: fallback level must have methods"},
	}, {
		name: "fallback of the isolation", changes: changes{{settings, "", "isolation.2=cordon"}},
		want: []string{settings + `:6: isolation has one level: all that is in it has to succeed, ` +
			`but for must_success=no, ` +
			`and what comes after it is power_management (got "isolation.2")`},
	}, {
		name: "several plugs in a method",
		changes: changes{
			{object + "/fence-method-pdu-a-off", "plug=5", "plug=5,6"},
			{object + "/fence-method-pdu-a-on", "plug=5", "plug=5,6"},
		},
		want: []string{
			object + `/fence-method-pdu-a-off:2: plug must be one: devices were seen to switch the ` +
				`first of a list only (got "5,6")`,
			object + "/fence-method-pdu-a-on:2: plug must be one: devices were seen to switch the first of a list only",
		},
	}, {
		name: "several plugs with a separator of their own",
		changes: changes{
			{object + "/fence-method-pdu-a-off", "plug=5", "plug=5;6\nplug_separator=;"},
			{object + "/fence-method-pdu-a-on", "plug=5", "plug=5;6"},
		},
		want: []string{
			object + "/fence-method-pdu-a-off:2: plug must be one: devices were seen to switch the first of a list",
		},
	}, {
		name: "the agent's own cycle", changes: changes{{template, "", "method=cycle"}},
		want: []string{template + ":7: method must not be cycle"},
	}, {
		name: "missing Secret", changes: changes{{template, "bmc/password", "bcm/password"}},
		want: []string{template + `:3: secret must exist in the namespace (got "bcm/password")`},
	}, {
		name: "missing key of a Secret", changes: changes{{template, "bmc/password", "bmc/passwd"}},
		want: []string{template + ":3: secret must have the key"},
	}, {
		name: "Secret without key", changes: changes{{template, "bmc/password", "bmc"}},
		want: []string{template + ":3: secret must be NAME/KEY"},
	}, {
		name: "password plain and in a Secret", changes: changes{{template, "", "passwd=hunter2"}},
		want: []string{template + ":7: parameter password must be given once, and is in line 3 already"},
	}, {
		name:    "address in a Secret",
		changes: changes{{bmcOff, "ip=bmc-{{.NodeName}}.example", "ip.secret=bmc/password"}},
		want:    []string{bmcOff + ":2: parameter ip must not be in a Secret"},
	}, {
		name: "switch in a Secret", changes: changes{{template, "lanplus=1", "lanplus.secret=bmc/password"}},
		want: []string{template + ":4: parameter lanplus must not be in a Secret"},
	}, {
		name: "the agent's own cycle in a Secret",
		changes: changes{
			{bmcOff, "template=" + ipmi, "agent=fence_old\nmethod.secret=bmc/password\nplug=1"},
			{bmcOn, "template=" + ipmi, "agent=fence_old\nplug=1"},
		},
		want: []string{bmcOff + ":2: parameter method must not be in a Secret"},
	}, {
		name: "password that is not in a Secret", strict: true,
		changes: changes{{template, "password.secret=bmc/password", "password=hunter2"}},
		want:    []string{template + ":3: password must be in a Secret: password.secret=NAME/KEY"},
	}, {
		name:    "password that need not be in a Secret",
		changes: changes{{template, "password.secret=bmc/password", "password=hunter2"}},
		warns:   []string{template + ":3: password should be in a Secret: password.secret=NAME/KEY"},
	}, {
		name: "duration without unit", changes: changes{{settings, "", "power_wait=300"}},
		want: []string{settings + `:6: power_wait must be a duration such as 90s or 5m, from 0s to ` +
			`24h0m0s (got "300")`},
	}, {
		name: "negative duration", changes: changes{{settings, "", "not_ready_for=-1s"}},
		want: []string{settings + ":6: not_ready_for must be a duration such as 90s or 5m, from 0s to 24h0m0s"},
	}, {
		name: "duration of days", changes: changes{{settings, "", "power_wait=24h1s"}},
		want: []string{settings + ":6: power_wait must be a duration such as 90s or 5m, from 0s to 24h0m0s"},
	}, {
		name: "no time to boot", changes: changes{{settings, "", "boot_grace=0s"}},
		want: []string{settings + ":6: boot_grace must be a duration such as 90s or 5m, from 1s to 24h0m0s"},
	}, {
		name: "no try at all", changes: changes{{settings, "", "retries=0"}},
		want: []string{settings + `:6: retries must be a number from 1 to 100 (got "0")`},
	}, {
		name: "tries for ever", changes: changes{{settings, "", "retries=101"}},
		want: []string{settings + ":6: retries must be a number from 1 to 100"},
	}, {
		name: "number with a sign", changes: changes{{settings, "", "restarts=+1"}},
		want: []string{settings + ":6: restarts must be a number from 0 to 100"},
	}, {
		name: "choice", changes: changes{{settings, "", "power_on=sometimes"}},
		want: []string{settings + `:6: power_on must be one of always, never, manual (got "sometimes")`},
	}, {
		name: "empty setting", changes: changes{{settings, "", "kdump="}},
		want: []string{settings + `:6: kdump must be one of yes, no (got "nothing")`},
	}, {
		name: "unknown placeholder", changes: changes{{bmcOff, "{{.NodeName}}", "{{.Node}}"}},
		want: []string{bmcOff +
			":2: placeholder must be {{.NodeName}}, {{.ProviderID}} or {{.InstanceID}}"},
	}, {
		name: "unknown placeholder in a template of several methods",
		changes: changes{
			{template, "", "ip={{.Node}}"},
			{bmcOff, "ip=bmc-{{.NodeName}}.example", ""},
			{bmcOn, "ip=bmc-{{.NodeName}}.example", ""},
		},
		want: []string{template + ":7: placeholder must be {{.NodeName}}, {{.ProviderID}} or {{.InstanceID}}"},
	}, {
		name: "on with another port than its off", changes: changes{{bmcOff, "", "ipport=623"}},
		want: []string{
			settings + ":3: what is switched off must be switched on in the same level, but for power_on=never",
			settings + ":3: what is switched on must be switched off in the same level",
		},
	}, {
		name: "placeholder that is not closed", changes: changes{{bmcOff, "{{.NodeName}}", "{{.NodeName"}},
		want: []string{bmcOff + ":2: placeholder must be {{.NodeName}}, {{.ProviderID}} or {{.InstanceID}}"},
	}, {
		name: "placeholder in a step", changes: changes{{settings, "bmc-off bmc-on", "bmc-off bmc-on {{.NodeName}}"}},
		want: []string{
			settings + ":3: placeholders are replaced in the values of parameters only",
			settings + ":4: level must be 1: the one before it is missing",
		},
		warns: []string{
			bmcOff + ": method is in no step",
			bmcOn + ": method is in no step",
		},
	}, {
		name:    "placeholder in the name of a Secret",
		changes: changes{{template, "bmc/password", "{{.NodeName}}/password"}},
		want:    []string{template + ":3: placeholders are replaced in the values of parameters only"},
	}, {
		name: "placeholder in the name of a template", changes: changes{{bmcOff, ipmi, ipmi + "{{.NodeName}}"}},
		want: []string{bmcOff + ":1: placeholders are replaced in the values of parameters only"},
	}, {
		name:    "placeholder in the name of an agent",
		changes: changes{{template, "fence_ipmilan", "fence_{{.NodeName}}"}},
		want:    []string{template + ":1: placeholders are replaced in the values of parameters only"},
	}, {
		name:    "placeholder for what the node does not have",
		changes: changes{{bmcOff, "{{.NodeName}}", "{{.InstanceID}}"}},
		want:    []string{bmcOff + ":2: node w1 has nothing for {{.InstanceID}}"},
	}, {
		name: "no address", changes: changes{{bmcOff, "ip=bmc-{{.NodeName}}.example", ""}},
		want: []string{bmcOff + ": method must say which device is meant: the agent's defaults are " +
			"never used for that"},
	}, {
		name: "empty address", changes: changes{{bmcOff, "ip=bmc-{{.NodeName}}.example", `ip=""`}},
		want: []string{bmcOff + ": method must say which device is meant: the agent's defaults are never"},
	}, {
		name: "address and plug that only the agent knows",
		changes: changes{
			{
				"fence-method-template-apc/template.properties",
				"fence_apc_snmp\nip=pdu-a.example\ncommunity.secret=pdu/community", "fence_defaults",
			},
			{object + "/fence-method-pdu-a-off", "plug=5", ""},
			{object + "/fence-method-pdu-a-on", "plug=5", ""},
		},
		want: []string{
			object + "/fence-method-pdu-a-off: parameter plug is required",
			object + "/fence-method-pdu-a-off: method must say which device is meant",
			object + "/fence-method-pdu-a-on: parameter plug is required",
			object + "/fence-method-pdu-a-on: method must say which device is meant",
		},
	}, {
		name: "both feeds on one plug",
		changes: changes{{
			object + "/fence-method-pdu-b-off", "template=fence-method-template-eaton\nplug=6",
			"template=fence-method-template-apc\nplug=5",
		}},
		want: []string{
			settings + `:4: methods must be for different plugs, and pdu-a-off is for the same (got ` +
				`"pdu-b-off")`,
			settings + ":4: what is switched on must be switched off in the same level",
		},
	}, {
		name: "both paths to the storage on one plug", changes: changes{
			{settings, "isolation=mark-unschedulable", "isolation=path-a path-b"},
			{settings, "recovery=mark-schedulable", "recovery=path-on"},
			{object + "/fence-method-path-a", "", "agent=fence_apc_snmp\nip=switch\nplug=1\naction=off"},
			{object + "/fence-method-path-b", "", "agent=fence_apc_snmp\nip=switch\nplug=1\naction=off"},
			{object + "/fence-method-path-on", "", "agent=fence_apc_snmp\nip=switch\nplug=1\naction=on"},
		},
		want: []string{settings + `:2: methods must be for different plugs, and path-a is for the ` +
			`same (got "path-b")`},
	}, {
		name: "plug of isolation and of power management",
		changes: changes{
			{settings, "isolation=mark-unschedulable", "isolation=bmc-off"},
			{settings, "recovery=mark-schedulable", "recovery=bmc-on"},
		},
		want: []string{settings + `:3: plug must not be that of isolation: what was switched off is ` +
			`not switched off again (got "bmc-off")`},
	}, {
		name: "plug of several nodes",
		changes: changes{
			{
				"fence-config-type-t/config.properties", "",
				"node_name=[NODE_NAME]\nisolation=\npower_management=a\nrecovery=",
			},
			{"fence-config-type-t/fence-method-a", "", "agent=fence_apc_snmp\nip=a\nplug=5\naction=reboot"},
		},
		nodes: []nodeconfig.Node{{Name: "w2", Type: "t"}},
		want: []string{"fence-config-type-t/fence-method-a: address or plug must have a placeholder such as " +
			`{{.NodeName}} in a configuration of several nodes (got "a 5")`},
	}, {
		name: "settle that is too short", changes: changes{{template, "", "settle=39s"}},
		want: []string{template +
			`:7: settle must be at least 40s for fence_ipmilan, until a command has landed for certain (got "39s")`},
	}, {
		name: "timeout that is no whole seconds", changes: changes{{template, "", "command_timeout=1500ms"}},
		want: []string{template + `:7: command_timeout must be whole seconds (got "1500ms")`},
	}, {
		name: "device of a node that says nothing", changes: changes{{template, "", "device={{.ProviderID}}"}},
		want: []string{template + ":7: node w1 has nothing for {{.ProviderID}}"},
	}, {
		name: "device without a name", changes: changes{{template, "", `device=""`}},
		want: []string{template + `:7: device must be a name (got "nothing")`},
	}, {
		name: "proof that is neither yes nor no", changes: changes{{template, "", "off_is_proof=maybe"}},
		want: []string{template + `:7: off_is_proof must be one of yes, no (got "maybe")`},
	}, {
		name: "no timeout at all", changes: changes{{template, "", "command_timeout=0s"}},
		want: []string{template + ":7: command_timeout must be a duration such as 90s or 5m, from 1s " +
			"to 24h0m0s"},
	}, {
		name:    "settle that is too short for any",
		changes: changes{{object + "/fence-method-pdu-a-off", "", "settle=9s"}},
		want: []string{object +
			"/fence-method-pdu-a-off:4: settle must be at least 10s for fence_apc_snmp"},
	}, {
		name: "power management that may fail", changes: changes{{template, "", "must_sucess=no"}},
		want: []string{
			settings +
				`:3: method must succeed in power management: its template has must_success=no (got "bmc-off")`,
			settings + ":3: method must succeed in power management: its template has must_success=no",
		},
	}, {
		name: "cloud that is not configured", changes: changes{{settings, "bmc-off bmc-on", "restart-instance"}},
		want: []string{settings +
			":3: restart-instance needs a ConfigMap fence-method-template-cloud with the agent of the cloud"},
		warns: []string{
			bmcOff + ": method is in no step",
			bmcOn + ": method is in no step",
		},
	}, {
		name: "agent that does not answer", changes: changes{{template, "fence_ipmilan", "fence_silent"}},
		want: []string{template + `:1: agent must say what parameters it has: it does not answer (got ` +
			`"fence_silent")`},
	}, {
		name: "secret that may not be read", changes: changes{{template, "bmc/password", "forbidden/password"}},
		want: []string{template + `:3: secret must be readable: it is forbidden (got ` +
			`"forbidden/password")`},
	}, {
		name: "method in no step",
		changes: changes{{
			object + "/fence-method-spare", "",
			"template=fence-method-template-apc\nplug=7\naction=off",
		}},
		warns: []string{object + `/fence-method-spare: method is in no step (got "spare")`},
	}, {
		name: "configuration of no node", changes: changes{{"fence-config-node-w11/config.properties", "", "x"}},
		warns: []string{"fence-config-node-w11: object is the configuration of no node"},
	}, {
		name:    "recovery that leaves the node unschedulable",
		changes: changes{{settings, "recovery=mark-schedulable", "recovery=mark-unschedulable"}},
		warns:   []string{settings + ":5: node stays unschedulable after it has recovered"},
	}, {
		name:    "recovery that takes pods and volumes from a working node",
		changes: changes{{settings, "recovery=mark-schedulable", "recovery=clean-pods detach-volumes uncordon"}},
		warns: []string{
			settings + ":5: method is for a node that fails: a recovery does without it",
			settings + ":5: method is for a node that fails: a recovery does without it",
		},
	},
}

func (r rule) resolve(t *testing.T) *nodeconfig.Resolution {
	t.Helper()
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	r.changes.apply(t, objects)
	n := namespace(objects)
	n.StrictSecrets = r.strict
	return nodeconfig.Resolve(n, append([]nodeconfig.Node{{Name: "w1"}}, r.nodes...))
}

func TestEveryRule(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			resolution := rule.resolve(t)
			expect(t, rule.want, parts(resolution.Validate()))
			expect(t, rule.warns, slices.Concat(resolution.Warnings(), resolution.Unused()))
			if _, err := resolution.Plan("w1"); len(rule.nodes) == 0 {
				assert.Equal(t, resolution.Validate(), err)
			}
		})
	}
}

// Every rule in the source has a case.
func TestEveryRuleHasACase(t *testing.T) {
	var all strings.Builder
	for _, rule := range rules {
		resolution := rule.resolve(t)
		for _, p := range slices.Concat(parts(resolution.Validate()), resolution.Warnings(), resolution.Unused()) {
			all.WriteString(p.Error() + "\n")
		}
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := 0
	var missing []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			if !isCall {
				return true
			}
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			if !isMethod || !slices.Contains([]string{"problem", "warning"}, method.Sel.Name) {
				return true
			}
			text := "" // the first one in the rule, which is the last argument but one
			ast.Inspect(call.Args[len(call.Args)-2], func(n ast.Node) bool {
				if literal, isText := n.(*ast.BasicLit); isText && text == "" {
					text, err = strconv.Unquote(literal.Value)
					require.NoError(t, err)
				}
				return true
			})
			if text, _, _ = strings.Cut(text, "%"); text != "" {
				found++
			}
			if !strings.Contains(all.String(), text) {
				missing = append(missing, name+": "+text)
			}
			return true
		})
	}
	assert.Empty(t, missing, "rules without a case")
	assert.Greater(t, found, 60)
}

// parts returns what an error joins.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	return err.(interface{ Unwrap() []error }).Unwrap()
}

func expect(t *testing.T, want []string, got []error) {
	t.Helper()
	var texts []string
	for _, p := range got {
		texts = append(texts, p.Error())
	}
	if !assert.Len(t, got, len(want), "%s", strings.Join(texts, "\n")) {
		return
	}
	for i, text := range texts {
		assert.True(t, strings.HasPrefix(text, want[i]), "want %s\n got %s", want[i], text)
	}
}
