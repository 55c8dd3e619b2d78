package devices_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// methodFabricOff cuts the machine off from its storage.
const methodFabricOff = "fc-off"

// kind is how machines get their power, and perhaps their storage.
type kind struct {
	name  string
	build func(t *testing.T) *site
	last  string // the device that is commanded last, of those that prove the machine to be off
}

var kinds = []kind{
	{name: "ipmilan", build: newBMCSite, last: "bmc"},
	{name: "dual PDU, APC and Eaton", build: newPDUSite, last: "pdu-b"},
	{name: "redfish", build: newRedfishSite, last: "bmc"},
	{name: "fabric", build: newSeedSite, last: "eaton"},
}

func newBMCSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	bmc, err := s.lab.BMC(s.machine.Chassis())
	require.NoError(t, err)
	s.template("ipmi", bmc, nil)
	s.configure("mark-unschedulable", "mark-schedulable", []string{"bmc-off bmc-on"},
		s.device("bmc", "ipmi", "", s.machine.Chassis()))
	return s
}

func newRedfishSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	bmc, err := s.lab.Redfish(s.machine.Chassis())
	require.NoError(t, err)
	s.environment = append(s.environment, "REQUESTS_CA_BUNDLE="+bmc.Certificate)
	s.template("redfish", bmc, nil)
	s.configure("mark-unschedulable", "mark-schedulable", []string{"bmc-off bmc-on"},
		s.device("bmc", "redfish", "", s.machine.Chassis()))
	return s
}

// newPDUSite has a machine with two power supplies.
func newPDUSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.configure("mark-unschedulable", "mark-schedulable", []string{pduLevel}, s.pdus()...)
	return s
}

const pduLevel = "pdu-a-off pdu-b-off pdu-a-on pdu-b-on"

// pdus hangs the machine on plug 5 of one power distribution unit and on plug 6 of another.
func (s *site) pdus() []methods {
	s.t.Helper()
	s.snmpSentOnce()
	a, b := s.machine.Feed(), s.machine.Feed()
	apc, err := s.lab.APC(append(others(4), a)...)
	require.NoError(s.t, err)
	eaton, err := s.lab.Eaton(append(others(5), b)...)
	require.NoError(s.t, err)
	s.template("apc", apc, nil)
	s.template("eaton", eaton, nil)
	return []methods{s.device("pdu-a", "apc", "5", a), s.device("pdu-b", "eaton", "6", b)}
}

// snmpSentOnce keeps SNMP programs from repeating a request that a slow device has not answered:
// the test counts what reaches the device.
func (s *site) snmpSentOnce() {
	s.t.Helper()
	directory := s.t.TempDir()
	require.NoError(s.t, os.WriteFile(filepath.Join(directory, "snmp.conf"), []byte("timeout 60\nretries 0\n"), 0o600))
	s.environment = append(s.environment, "SNMPCONFPATH="+directory)
}

// others are plugs of other machines.
func others(n int) (plugs []*lab.Plug) {
	for range n {
		plugs = append(plugs, lab.NewPlug(nil))
	}
	return plugs
}

// newSeedSite has a machine as the documents that this project grew from have it, with their names:
// a port of a switch between it and its storage, and one power supply.
func newSeedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.fabric = lab.NewPlug(nil)
	brocade, err := s.lab.Brocade(append(others(2), s.fabric)...)
	require.NoError(t, err)
	s.snmpSentOnce()
	feed := s.machine.Feed()
	eaton, err := s.lab.Eaton(feed)
	require.NoError(t, err)
	s.template("fc-switch-brocade", brocade, nil)
	s.template("eaton-pdu", eaton, nil)
	s.configure(methodFabricOff, "fc-on", []string{"eaton-off eaton-on"},
		s.device("fc", "fc-switch-brocade", "2", s.fabric), s.device("eaton", "eaton-pdu", "1", feed))
	s.runOnStorage()
	return s
}

// template configures a device, with parameters in place of its own or besides them. What is secret
// is in a Secret.
func (s *site) template(name string, d *lab.Device, parameters map[string]string) {
	s.t.Helper()
	s.devices[name] = d
	s.configMap("fence-method-template-"+name, map[string]string{
		"template.properties": d.Template("power", parameters) + "settle=" + settle.String() + "\n",
	})
}

// methods switch one plug.
type methods struct{ name, on, off string }

// device returns the methods of a plug.
func (s *site) device(name, template, plug string, p *lab.Plug) methods {
	text := "template=fence-method-template-" + template + "\n"
	if plug != "" {
		text += "plug=" + plug + "\n"
	}
	s.plugs[name] = p
	return methods{name, text + "action=on\n", text + "action=off\n"}
}

// configure says how the machine is fenced. Nothing is waited for that is not needed for safety.
func (s *site) configure(isolation, recovery string, levels []string, devices ...methods) {
	s.t.Helper()
	settings := fmt.Sprintf("node_name=%s\nisolation=%s\nrecovery=%s\nnot_ready_for=1s\npower_wait=1s\nboot_grace=2m\n",
		s.node, isolation, recovery)
	for i, level := range levels {
		key := "power_management"
		if i > 0 {
			key += fmt.Sprintf(".%d", i+1)
		}
		settings += key + "=" + level + "\n"
	}
	data := map[string]string{"config.properties": settings}
	for _, m := range devices {
		data["fence-method-"+m.name+"-on"], data["fence-method-"+m.name+"-off"] = m.on, m.off
	}
	s.configMap("fence-config-node-"+s.node, data)
}

// setting adds some to those of the machine, or replaces them, before any fencer has begun with it.
func (s *site) setting(lines ...string) {
	s.t.Helper()
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	m, err := maps.Get(s.t.Context(), "fence-config-node-"+s.node, metav1.GetOptions{})
	require.NoError(s.t, err)
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		text := ""
		for old := range strings.Lines(m.Data["config.properties"]) {
			if !strings.HasPrefix(old, name+"=") {
				text += old
			}
		}
		m.Data["config.properties"] = text + line + "\n"
	}
	_, err = maps.Update(s.t.Context(), m, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

func (s *site) configMap(name string, data map[string]string) {
	s.t.Helper()
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// names are those of the devices.
func (s *site) names() []string { return slices.Sorted(maps.Keys(s.plugs)) }
