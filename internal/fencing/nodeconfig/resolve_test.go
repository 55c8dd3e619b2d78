package nodeconfig_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// nothing is a configuration that does nothing, for a node by its name or for any.
func nothing(node string) map[string]string {
	return map[string]string{"config.properties": "node_name=" + node + "\nisolation=\npower_management=\nrecovery="}
}

const anyNode = "[NODE_NAME]"

func TestMostSpecificObjectIsUsed(t *testing.T) {
	w1 := nodeconfig.Node{Name: "w1", Type: "Compute_Big"}
	cloud := load(t, "built-in.yaml", "")["fence-method-template-cloud"]
	for _, c := range []struct {
		name    string
		node    nodeconfig.Node
		objects map[string]map[string]string
		want    string
	}{
		{
			"own, before that of its type", w1,
			map[string]map[string]string{
				"fence-config-node-w1":          nothing("w1"),
				"fence-config-type-compute-big": nothing(anyNode),
			},
			"fence-config-node-w1",
		},
		{
			"own, with any name", w1,
			map[string]map[string]string{"fence-config-node-w1": nothing("{{.NodeName}}")},
			"fence-config-node-w1",
		},
		{
			"own, by its former name", w1,
			map[string]map[string]string{
				"fence-config-w1":               nothing("w1"),
				"fence-config-type-compute-big": nothing(anyNode),
			},
			"fence-config-w1",
		},
		{
			"own, by its former name, with any name", w1,
			map[string]map[string]string{"fence-config-w1": nothing(anyNode)},
			"fence-config-w1",
		},
		{
			"that of its type", w1,
			map[string]map[string]string{
				"fence-config-node-w2":          nothing("w2"),
				"fence-config-type-compute-big": nothing(anyNode),
			},
			"fence-config-type-compute-big",
		},
		{
			"none",
			nodeconfig.Node{Name: "w1", ProviderID: "aws:///a/i-1"},
			map[string]map[string]string{"fence-config-type-": nothing(anyNode)},
			"built-in",
		},
		{
			"a node that is called as a type",
			nodeconfig.Node{Name: "type-a", ProviderID: "aws:///a/i-1"},
			map[string]map[string]string{"fence-config-type-a": nothing(anyNode)},
			"built-in",
		},
		{
			"a node that is called as a type, by its former name",
			nodeconfig.Node{Name: "type-a"},
			map[string]map[string]string{"fence-config-type-a": nothing("type-a")},
			"fence-config-type-a",
		},
		{
			"a node that is called as a type, by its former name, unreadable",
			nodeconfig.Node{Name: "type-a", ProviderID: "aws:///a/i-1"},
			map[string]map[string]string{"fence-config-type-a": {}},
			"",
		},
		{
			"a node that is called as another node's object",
			nodeconfig.Node{Name: "node-w1", ProviderID: "aws:///a/i-1"},
			map[string]map[string]string{"fence-config-node-w1": nothing("w1")},
			"built-in",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.objects["fence-method-template-cloud"] = cloud
			if c.want == "" {
				_, err := nodeconfig.Resolve(namespace(c.objects), []nodeconfig.Node{c.node}).Plan(c.node.Name)
				require.Error(t, err)
				return
			}
			assert.Equal(t, c.want, plan(t, namespace(c.objects), c.node).Object)
		})
	}
}

// The general configurations would all be valid.
func TestInvalidConfigurationIsNotReplacedByAMoreGeneralOne(t *testing.T) {
	for _, specific := range []string{"fence-config-node-w1", "fence-config-w1", "fence-config-type-compute"} {
		for name, data := range map[string]map[string]string{
			"nothing in it":   {},
			"empty text":      {"config.properties": ""},
			"unreadable text": {"config.properties": "\x00"},
			"misspelt data key": {
				"config.propertes": "node_name=[NODE_NAME]\nisolation=\npower_management=\nrecovery=",
			},
			"another node's": nothing("w2"),
			"unknown key": {
				"config.properties": "node_name=[NODE_NAME]\nisolation=\npower_management=\nrecovery=\nretires=3",
			},
			"wrong unused thing": {
				"config.properties": nothing(anyNode)["config.properties"],
				"fence-method-x":    "action=off",
			},
		} {
			t.Run(specific+" with "+name, func(t *testing.T) {
				objects := load(t, "built-in.yaml", "")
				objects["fence-config-type-compute"] = nothing(anyNode)
				objects[specific] = data
				resolution := nodeconfig.Resolve(namespace(objects),
					[]nodeconfig.Node{{Name: "w1", Type: "compute", ProviderID: "aws:///a/i-1"}})
				p, err := resolution.Plan("w1")
				require.Error(t, err)
				assert.Zero(t, p)
				for _, problem := range parts(err) {
					assert.Regexp(t, "^"+specific+"[:/]", problem.Error())
				}
			})
		}
	}
}

func TestPlugOfTwoNodes(t *testing.T) {
	own := func(template, rest string) map[string]string {
		return map[string]string{
			"config.properties": "node_name=[NODE_NAME]\nisolation=\npower_management=a\nrecovery=",
			"fence-method-a":    "template=fence-method-template-" + template + "\naction=reboot\n" + rest,
		}
	}
	for _, c := range []struct {
		name   string
		w1, w2 map[string]string
		shared bool
	}{
		{"the same", own("apc", "plug=5"), own("apc", "plug=5"), true},
		{"another plug", own("apc", "plug=5"), own("apc", "plug=6"), false},
		{"another address", own("apc", "plug=5"), own("apc", "plug=5\nip=pdu-c.example"), false},
		{"another agent for the same device", own("apc", "plug=5"), own("eaton", "plug=5\nip=pdu-a.example"), true},
		{"another device at the address", own("apc", "plug=5"), map[string]string{
			"config.properties": nothing("w2")["config.properties"],
			"fence-method-a":    "agent=fence_brocade\nip=pdu-a.example\nplug=5\nusername=a\naction=on",
		}, false},
		{"another port", own("apc", "plug=5"), own("apc", "plug=5\nipport=162"), false},
		{"the port that the agent takes by itself", own("apc", "plug=5"), own("apc", "plug=5\nipport=161"), true},
		{"the old name of a parameter", own("apc", "plug=5"), own("apc", "port=5"), true},
		{"another spelling of an address", own("apc", "plug=5"), own("apc", "plug=5\nip=PDU-A.example."), true},
		{
			"another spelling of an IPv6 address", own("apc", "plug=5\nip=2001:db8::1"),
			own("apc", "plug=5\nip=[2001:DB8:0::1]"), true,
		},
		{
			"an IPv4 address in IPv6", own("apc", "plug=5\nip=192.0.2.1"), own("apc", "plug=5\nip=::ffff:192.0.2.1"),
			true,
		},
		{"an address without plug", own("ipmi", "ip=bmc.example"), own("ipmi", "ip=bmc.example"), true},
		{
			"an address in place of a plug", own("ipmi", "ip=bmc.example"),
			own("ipmi", "plug=bmc.example\nport_as_ip=1"),
			true,
		},
		{
			"an address besides the setting for plugs", own("ipmi", "ip=bmc.example"),
			own("ipmi", "ip=bmc.example\nport_as_ip=1"), true,
		},
		{
			"a machine behind another one", own("ipmi", "ip=bmc.example\ntarget=0x82"),
			own("ipmi", "ip=bmc.example\ntarget=0x84"), false,
		},
		{
			"a machine behind the same one", own("ipmi", "ip=bmc.example\ntarget=0x82"),
			own("ipmi", "ip=bmc.example\ntarget=0x82"), true,
		},
		{
			"a plug that only looks as one of a switch", own("apc", "plug=5\nswitch=2"), own("apc", "plug=5/switch=2"),
			false,
		},
		{"parts that only look the same together", own("apc", "ip=a/b\nplug=c"), own("apc", "ip=a\nplug=b/c"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := load(t, "bmc-then-pdus.yaml", "w1")
			objects["fence-config-node-w1"], objects["fence-config-node-w2"] = c.w1, c.w2
			resolution := nodeconfig.Resolve(namespace(objects),
				[]nodeconfig.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w1"}})
			if !c.shared {
				require.NoError(t, resolution.Validate())
				return
			}
			for _, node := range []string{"w1", "w2"} {
				_, err := resolution.Plan(node)
				expect(t, []string{"fence-config-node-" + node + "/fence-method-a: plug must be of one " +
					"node, and is that of w1, w2"}, parts(err))
			}
			assert.Len(t, parts(resolution.Validate()), 2)
		})
	}
}

// The other node's configuration need not be right for that.
func TestPlugOfANodeThatCannotBeFenced(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	objects["fence-config-node-w2"] = map[string]string{
		"fence-method-a": "agent=fence_apc_snmp\nip=pdu-a.example\nplug=5\naction=of",
	}
	_, err := nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: "w1"}, {Name: "w2"}}).Plan("w1")
	assert.ErrorContains(t, err, "fence-config-node-w1/fence-method-pdu-a-off: plug must be of one node, and is that "+
		"of w1, w2")
}

func TestConfigurationOfSeveralNodesMustDistinguishThem(t *testing.T) {
	for method, wrong := range map[string]bool{
		"template=fence-method-template-ipmi\nip=bmc.example":                                  true,
		"template=fence-method-template-ipmi\nip=bmc.example\nusername={{.NodeName}}":          true,
		"template=fence-method-template-ipmi\nip=bmc-{{.NodeName}}.example":                    false,
		"template=fence-method-template-apc\nplug=5":                                           true,
		"template=fence-method-template-apc\nplug={{.InstanceID}}":                             false,
		"template=fence-method-template-apc\nip={{.ProviderID}}\nplug=1":                       false,
		"agent=fence_redfish\nip=bmcs.example\nusername=a\nsystems_uri=/Systems/1":             true,
		"agent=fence_redfish\nip=bmcs.example\nusername=a\nsystems-uri=/Systems/{{.NodeName}}": false,
		"agent=fence_dummy\ntype=file":                                                         true,
		"agent=fence_dummy\nstatus_file=/run/{{.NodeName}}":                                    false,
		"agent=fence_ipmilan\nplug={{.NodeName}}\nport_as_ip=yes":                              false,
		// is not looked at then
		"agent=fence_ipmilan\nplug=bmc\nport_as_ip=yes\nip={{.NodeName}}":                         true,
		"agent=fence_old\nip={{.NodeName}}\nplug=1\nusername=a\npassword.secret=bmc/password":     false,
		"agent=fence_old\nipaddr={{.NodeName}}\nport=1\nlogin=a\npasswd.secret=bmc/password":      false,
		"agent=fence_old\nipaddr=\"  \"\nport={{.NodeName}}\nlogin=a\npasswd.secret=bmc/password": true,
	} {
		objects := load(t, "bmc-then-pdus.yaml", "")
		delete(objects, "fence-config-node-w1")
		objects["fence-config-type-t"] = map[string]string{
			"config.properties": "node_name=[NODE_NAME]\nisolation=\npower_management=a\nrecovery=",
			"fence-method-a":    "action=reboot\n" + method,
		}
		_, err := nodeconfig.Resolve(namespace(objects),
			[]nodeconfig.Node{{Name: "w1", ProviderID: "x:///y/z", Type: "t"}}).Plan("w1")
		if wrong {
			require.Error(t, err, method)
			assert.Regexp(t, ": (address or plug must have a placeholder|method must say which device is meant)",
				parts(err)[0].Error(), method)
		} else {
			assert.NoError(t, err, method)
		}
	}
}

func TestParametersHaveTheNamesThatTheAgentKnows(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	objects["fence-config-node-w1"]["fence-method-bmc-off"] = "agent=fence_old\naction=off\nip=a\nplug=1\n" +
		"username=u\npassword.secret=bmc/password"
	objects["fence-config-node-w1"]["fence-method-bmc-on"] = "agent=fence_old\naction=on\nipaddr=a\nport=1\n" +
		"login=u\npasswd.secret=bmc/password"
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
	want := map[string]string{"ipaddr": "a", "port": "1", "login": "u", "passwd": "hunter2"}
	assert.Equal(t, want, arguments(t, p.PowerManagement[0][0].Device))
	assert.Equal(t, want, arguments(t, p.PowerManagement[0][1].Device))
	assert.Equal(t, "fence_old/a/1", p.PowerManagement[0][1].Device.Key)
}

func TestMethodOverridesTemplate(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	changes{
		{bmcOff, "", "passwd=plain\ncipher=\"\"\nsettle=50s"}, {template, "", "settle=60s"},
	}.apply(t, objects)
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
	off, on := p.PowerManagement[0][0].Device, p.PowerManagement[0][1].Device
	assert.Equal(t, map[string]string{
		"ip": "bmc-w1.example", "username": "fencer", "password": "plain", "lanplus": "1", "cipher": "",
		"power_wait": "0",
	}, arguments(t, off))
	assert.Equal(t, "hunter2", arguments(t, on)["password"])
	assert.Equal(t, "50s 1m0s", fmt.Sprint(off.Settle, on.Settle))
}

func TestRebootIsOffForAllThenOn(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	changes{
		{object + "/fence-method-pdu-a-off", "action=off", "action=reboot"},
		{object + "/fence-method-pdu-b-off", "action=off", "action=Cycle"},
		{settings, "pdu-a-off pdu-b-off pdu-a-on pdu-b-on", "pdu-a-off clean_pods pdu-b-off"},
		{object + "/fence-method-pdu-a-on", "", "-"},
		{object + "/fence-method-pdu-b-on", "", "-"},
	}.apply(t, objects)
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
	assert.Equal(t, []string{
		"pdu-a-off off fence_apc_snmp/pdu-a.example/5", "clean-pods", "pdu-b-off off fence_eaton_snmp/pdu-b.example/6",
		"pdu-a-off on fence_apc_snmp/pdu-a.example/5", "pdu-b-off on fence_eaton_snmp/pdu-b.example/6",
	}, names(p.PowerManagement[1]))
}

func TestMachineThatStaysOffHasNoOn(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	objects["fence-method-template-cloud"] = map[string]string{"template.properties": "agent_name=fence_aws"}
	changes{
		{settings, "", "power_on=Never"},
		{settings, "bmc-off bmc-on", "restart-instance delete-node"},
		{settings, "pdu-a-off pdu-b-off pdu-a-on pdu-b-on", "pdu-a-off bmc-off bmc-on"},
	}.apply(t, objects)
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1", ProviderID: "aws:///a/i-1"})
	assert.Equal(t, []string{"restart-instance off fence_aws//i-1", "delete-node"}, names(p.PowerManagement[0]))
	assert.Equal(t, []string{"pdu-a-off off fence_apc_snmp/pdu-a.example/5", "bmc-off off " +
		"fence_ipmilan/bmc-w1.example/"}, names(p.PowerManagement[1]))
}

func TestMachineThatStaysOffMayStayIsolated(t *testing.T) {
	objects := load(t, "switch-and-pdu.yaml", "w1")
	data := objects["fence-config-w1"]
	data["config.properties"] = strings.Replace(data["config.properties"], "recovery=fc-on",
		"recovery=\npower_on=never", 1)
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
	assert.Len(t, p.Isolation.Off(), 1)
	assert.Empty(t, p.Recovery)
}

func TestIsolationMayFail(t *testing.T) {
	for _, spelling := range []string{"must_success", "must_sucess", "Must-Sucess"} {
		objects := load(t, "switch-and-pdu.yaml", "w1")
		objects["fence-method-template-fc-switch-brocade"]["template.properties"] += "\n" + spelling +
			"=no\nname=the switch"
		p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
		assert.False(t, p.Isolation[0].MustSucceed)
		assert.True(t, p.PowerManagement[0][0].MustSucceed)
	}
}

func TestSettings(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	changes{{settings, "power_management", "Power-Managment"}, {settings, "", strings.Join([]string{
		"power-on=manual", "not_ready_for=1m", "power_wait=0s", "boot_grace=20m", "retries=1", "restarts=0",
		"kdump=YES", "kdump-timeout=10m",
	}, "\r\n")}}.apply(t, objects)
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
	assert.Equal(t, "manual 1m0s 0s 20m0s 1 0 true 10m0s",
		fmt.Sprint(p.PowerOn, " ", p.NotReadyFor, p.PowerWait, p.BootGrace, p.Retries, p.Restarts, p.Kdump,
			p.KdumpTimeout))
	assert.Len(t, p.Isolation, 1)
	assert.Len(t, p.PowerManagement, 2)
}

// The timeout of a device is that of its method, or of its template.
func TestTimeoutsOfDevices(t *testing.T) {
	for name, c := range map[string]struct {
		changes changes
		want    time.Duration
	}{
		"none":            {nil, 0},
		"of the template": {changes{{template, "", "command_timeout=2s"}}, 2 * time.Second},
		"of the method": {
			changes{{template, "", "command_timeout=2s"}, {bmcOff, "", "command-timeout=1m"}},
			time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := load(t, "bmc-then-pdus.yaml", "w1")
			c.changes.apply(t, objects)
			p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"})
			assert.Equal(t, c.want, p.PowerManagement[0].Off()[0].Device.Timeout)
		})
	}
}

// What off means is known of the agent, unless its method or template says otherwise.
func TestWhatOffMeans(t *testing.T) {
	for name, c := range map[string]struct {
		changes changes
		of      bool // the agent
		want    bool
	}{
		"of an agent whose off is proof": {nil, true, true},
		"of another agent":               {nil, false, false},
		"of the template":                {changes{{template, "", "off_is_proof=yes"}}, false, true},
		"of the method": {
			changes{{template, "", "off_is_proof=yes"}, {bmcOff, "", "off-is-proof=NO"}}, true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := load(t, "bmc-then-pdus.yaml", "w1")
			c.changes.apply(t, objects)
			n := namespace(objects)
			known := n.Agent
			n.Agent = func(name string) (agent.Metadata, error) {
				m, err := known(name)
				m.OffIsProof = c.of
				return m, err
			}
			before := plan(t, namespace(load(t, "bmc-then-pdus.yaml", "w1")), nodeconfig.Node{Name: "w1"})
			p := plan(t, n, nodeconfig.Node{Name: "w1"})
			assert.Equal(t, c.want, p.PowerManagement[0].Off()[0].Device.OffIsProof)
			assert.Equal(t, before.Hash, p.Hash, "it may change during a fence")
		})
	}
}

func TestKeysOfDevices(t *testing.T) {
	for method, want := range map[string]string{
		"agent=fence_apc_snmp\nip=PDU.example.\nplug=5":             "fence_apc_snmp/pdu.example/5",
		"agent=fence_apc_snmp\nip=pdu.example\nipport=1161\nplug=5": "fence_apc_snmp/pdu.example:1161/5",
		"agent=fence_apc_snmp\nip=2001:DB8::1\n" +
			"plug=Outlet 5": "fence_apc_snmp/%5B2001:db8::1%5D/Outlet%205",
		"agent=fence_apc_snmp\nip=2001:db8::1\nport=5\n" +
			"ipport=1161": "fence_apc_snmp/%5B2001:db8::1%5D:1161/5",
		"agent=fence_apc_snmp\nip=a\nplug=b/c\nswitch=2":  "fence_apc_snmp/a/b%2Fc/switch=2",
		"agent=fence_ilo\nip=bmc.example":                 "fence_ilo/bmc.example/",
		"agent=fence_ilo\nport=bmc.example\nport_as_ip=1": "fence_ilo/bmc.example/",
		"agent=fence_redfish\nip=a\nusername=u\n" +
			"systems_uri=/redfish/v1/Systems/1": "fence_redfish/a//systems_uri=%2Fredfish%2Fv1%2FSystems%2F1",
		"agent=fence_dummy\n" +
			"status_file=/run/w1": "fence_dummy///status_file=%2Frun%2Fw1",
	} {
		data := nothing("w1")
		data["config.properties"] = strings.Replace(data["config.properties"], "power_management=",
			"power_management=a", 1)
		data["fence-method-a"] = "action=reboot\n" + method
		p := plan(t, namespace(map[string]map[string]string{"fence-config-node-w1": data}), nodeconfig.Node{Name: "w1"})
		assert.Equal(t, want, p.Devices()[0].Key, method)
	}
}

// Plugs of one queue are called one by one.
func TestQueuesOfDevices(t *testing.T) {
	for method, want := range map[string]string{
		"agent=fence_apc_snmp\nip=PDU.example.\nplug=5":                "fence_apc_snmp pdu.example/",
		"agent=fence_apc_snmp\nip=pdu.example\nplug=6\nswitch=2":       "fence_apc_snmp pdu.example/",
		"agent=fence_apc_snmp\nip=pdu.example\nipport=1161\nplug=5":    "fence_apc_snmp pdu.example:1161/",
		"agent=fence_apc_snmp\nip=pdu.example\nplug=5\ndevice=the PDU": "device the PDU",
		"agent=fence_apc_snmp\nip=a\nplug=5\ndevice=of {{.NodeName}}":  "device of w1",
		"agent=fence_ilo\nport=bmc.example\nport_as_ip=1":              "fence_ilo bmc.example/",
		"agent=fence_dummy\nstatus_file=/run/w1":                       "fence_dummy///status_file=%2Frun%2Fw1",
		"agent=fence_dummy\nstatus_file=/run/w1\ndevice=the file":      "device the file",
	} {
		data := nothing("w1")
		data["config.properties"] = strings.Replace(data["config.properties"], "power_management=",
			"power_management=a", 1)
		data["fence-method-a"] = "action=reboot\n" + method
		p := plan(t, namespace(map[string]map[string]string{"fence-config-node-w1": data}), nodeconfig.Node{Name: "w1"})
		assert.Equal(t, want, p.Devices()[0].Queue, method)
	}
}

func TestMethodMayBeginWithADigit(t *testing.T) {
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	objects["fence-config-node-w1"]["fence-method-1_Off"] = objects["fence-config-node-w1"]["fence-method-bmc-off"]
	changes{{settings, "bmc-off bmc-on", "1-off bmc-on"}}.apply(t, objects)
	assert.Equal(t, "1-off", plan(t, namespace(objects), nodeconfig.Node{Name: "w1"}).PowerManagement[0][0].Name)
}

func TestUnknownNode(t *testing.T) {
	_, err := nodeconfig.Resolve(nodeconfig.Namespace{}, []nodeconfig.Node{{Name: "w1"}}).Plan("w2")
	require.EqualError(t, err, `config: node is not among those that were resolved (got "w2")`)
	_, err = nodeconfig.Resolve(nodeconfig.Namespace{}, []nodeconfig.Node{{Name: "w1"}}).Plan("w1")
	expect(t, []string{"built-in/config.properties:3: restart-instance needs a ConfigMap " +
		"fence-method-template-cloud"}, parts(err))
	require.ErrorIs(t, err, nodeconfig.ErrNotConfigured)
	objects := map[string]map[string]string{"fence-config-node-w1": nothing("w1")}
	changes{{settings, "power_management=", "power_management=restart-instance"}}.apply(t, objects)
	_, err = nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: "w1"}}).Plan("w1")
	require.Error(t, err)
	assert.NotErrorIs(t, err, nodeconfig.ErrNotConfigured, "the node has a ConfigMap")
}

// A silent agent or a forbidden Secret affects only the nodes that need it.
func TestUnreadableAgentOrSecretFailsOnlyTheNodesThatNeedIt(t *testing.T) {
	for _, change := range []changes{
		{{template, "fence_ipmilan", "fence_silent"}},
		{{template, "bmc/password", "forbidden/password"}},
	} {
		objects := load(t, "bmc-then-pdus.yaml", "w1")
		change.apply(t, objects)
		objects["fence-config-node-w2"] = map[string]string{
			"config.properties": "node_name=w2\nisolation=\npower_management=off on\nrecovery=\n",
			"fence-method-off":  "agent=fence_aws\nplug=i-2\naction=off",
			"fence-method-on":   "agent=fence_aws\nplug=i-2\naction=on",
		}
		resolved := nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: "w1"}, {Name: "w2"}})
		_, err := resolved.Plan("w1")
		require.ErrorIs(t, err, nodeconfig.ErrUnread)
		_, err = resolved.Plan("w2")
		assert.NoError(t, err)
	}
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	changes{{template, "bmc/password", "none/password"}}.apply(t, objects)
	_, err := nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: "w1"}}).Plan("w1")
	require.Error(t, err)
	assert.NotErrorIs(t, err, nodeconfig.ErrUnread, "it is known that there is none")
}

// A kubelet can give its Node labels, and once a provider ID. That of another node, or of its plug,
// does not keep that from being fenced.
func TestNodeThatClaimsAnothersPlugHarmsItselfOnly(t *testing.T) {
	method := func(plug string) map[string]string {
		return map[string]string{
			"config.properties": "node_name={{.NodeName}}\nisolation=\npower_management=off on\nrecovery=\n",
			"fence-method-off":  "agent=fence_aws\nplug=" + plug + "\naction=off",
			"fence-method-on":   "agent=fence_aws\nplug=" + plug + "\naction=on",
		}
	}
	objects := map[string]map[string]string{
		"fence-config-type-cloud": method("{{.InstanceID}}"),
		"fence-config-node-named": method("i-1"),
	}
	objects["fence-config-node-named"]["config.properties"] = "node_name=named\nisolation=\npower_management=off " +
		"on\nrecovery=\n"
	for name, c := range map[string]struct {
		nodes []nodeconfig.Node
		owner string
	}{
		"who had it first": {[]nodeconfig.Node{{
			Name: "a", Type: "cloud",
			ProviderID: "aws:///i-1", Since: 1,
		}, {Name: "b", Type: "cloud", ProviderID: "aws:///i-1", Since: 2}}, "a"},
		"who is known to have had it first": {[]nodeconfig.Node{{
			Name: "a", Type: "cloud",
			ProviderID: "aws:///i-1", Since: 1,
		}, {Name: "b", Type: "cloud", ProviderID: "aws:///i-1"}}, "b"},
		"unknown node": {[]nodeconfig.Node{{
			Name: "a", Type: "cloud",
			ProviderID: "aws:///i-1", Since: 1,
		}, {Name: "b", Type: "cloud", ProviderID: "aws:///i-1", Since: 1}}, ""},
		"the administrator has said whose it is": {[]nodeconfig.Node{{
			Name: "a", Type: "cloud",
			ProviderID: "aws:///i-1", Since: 1,
		}, {Name: "named", Since: 2}}, "named"},
		"alone": {[]nodeconfig.Node{{
			Name: "a", Type: "cloud",
			ProviderID: "aws:///i-1", Since: 7,
		}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			resolved := nodeconfig.Resolve(namespace(objects), c.nodes)
			for _, n := range c.nodes {
				_, err := resolved.Plan(n.Name)
				if n.Name == c.owner {
					assert.NoError(t, err)
				} else {
					require.Error(t, err, n.Name)
					assert.ErrorContains(t, parts(err)[0], ": plug must be of one node, and is that of ")
				}
			}
		})
	}
	resolved := nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{
		{Name: "a", Type: "cloud", ProviderID: "aws:///i-1"}, {Name: "b", Type: "Cloud", ProviderID: "aws:///i-2"},
	})
	assert.NoError(t, resolved.Validate(), "another spelling of a type is for that node only")
	assert.Len(t, resolved.Warnings(), 1)
	assert.Len(t, resolved.Unused(), 1)
}
