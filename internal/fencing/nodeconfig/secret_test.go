package nodeconfig_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

func withPlainPassword(t *testing.T, password string) map[string]map[string]string {
	t.Helper()
	objects := load(t, "bmc-then-pdus.yaml", "w1")
	changes{{template, "password.secret=bmc/password", "password=" + password}}.apply(t, objects)
	return objects
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	p := plan(t, namespace(withPlainPassword(t, "Tr0ub4dor")), nodeconfig.Node{Name: "w1"})
	require.Equal(t, "Tr0ub4dor", arguments(t, p.PowerManagement[0][0].Device)["password"])
	core, logs := observer.New(zap.DebugLevel)
	var log strings.Builder
	deep := struct{ inside any }{struct{ device nodeplan.Device }{*p.PowerManagement[0][0].Device}}
	for _, printed := range []any{
		p, &p, p.PowerManagement, p.PowerManagement[0][0].Device, *p.PowerManagement[0][0].Device,
		p.PowerManagement[0][0].Device.Arguments, p.PowerManagement[0][0].Device.Arguments[3].Value, deep,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			assert.NotContains(t, fmt.Sprintf(verb, printed), "Tr0ub4dor")
			assert.NotContains(t, fmt.Sprintf(verb, printed), fmt.Sprintf("%x", "Tr0ub4dor"))
		}
		encoded, err := json.Marshal(printed)
		require.NoError(t, err)
		assert.NotContains(t, string(encoded), "Tr0ub4dor")
		zap.New(core).Info("x", zap.Any("any", printed), zap.Reflect("reflect", printed))
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "any", printed)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "any", printed)
	}
	assert.NotContains(t, log.String(), "Tr0ub4dor")
	for _, entry := range logs.All() {
		assert.NotContains(t, fmt.Sprintf("%+v", entry.ContextMap()), "Tr0ub4dor")
	}
}

func TestErrorsDoNotTellPasswords(t *testing.T) {
	for _, line := range []string{
		"password: Tr0ub4dor", "password Tr0ub4dor", "Tr0ub4dor", `password=Tr0ub4dor\`, "password=Tr0ub4dor\x00",
		"passwd=Tr0ub4dor\npassword=Tr0ub4dor",
		"password={{Tr0ub4dor", "password=" + strings.Repeat("Tr0ub4dor", 500), "pasword=Tr0ub4dor",
		"snmp_priv_passwd=Tr0ub4dor", "password_=Tr0ub4dor",
	} {
		objects := load(t, "bmc-then-pdus.yaml", "w1")
		changes{{template, "password.secret=bmc/password", line}}.apply(t, objects)
		_, err := nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: "w1"}}).Plan("w1")
		require.Error(t, err, line)
		assert.NotContains(t, err.Error(), "Tr0ub4dor", line)
		assert.NotContains(t, fmt.Sprintf("%+v", parts(err)), "Tr0ub4dor", line)
	}
}

func TestValuesOfSecrets(t *testing.T) {
	device := func(ref string) *nodeplan.Device {
		objects := load(t, "bmc-then-pdus.yaml", "w1")
		changes{{template, "bmc/password", ref}}.apply(t, objects)
		return plan(t, namespace(objects), nodeconfig.Node{Name: "w1"}).Devices()[0]
	}
	assert.Equal(t, "hunter2", arguments(t, device("bmc/password"))["password"], "without its newline")
	assert.Equal(t, "a", arguments(t, device("odd/crlf"))["password"])
	assert.Equal(t, "{{.NodeName}}", arguments(t, device("odd/braces"))["password"],
		"placeholders are for configurations")
	for ref, want := range map[string]string{
		"odd/lines":  "must be one line of UTF-8 text (got control character U+000A at byte 2)",
		"odd/nul":    "must be one line of UTF-8 text (got control character U+0000 at byte 2)",
		"odd/binary": "must be one line of UTF-8 text (got invalid UTF-8 at byte 1)",
		"odd/empty":  "must have from 1 to 4085 bytes (got 0)",
	} {
		_, err := nodeconfig.Target(device(ref), "w1", secretValue)
		assert.EqualError(t, err, "config: fence_ipmilan/bmc-w1.example/: password: secret "+ref+" "+want)
	}
	_, err := nodeconfig.Target(device("bmc/password"), "w1",
		func(nodeplan.SecretRef) ([]byte, bool) { return nil, false })
	assert.EqualError(t, err, "config: fence_ipmilan/bmc-w1.example/: password: secret bmc/password is missing")
	_, err = nodeconfig.Target(device("bmc/password"), "w1",
		func(nodeplan.SecretRef) ([]byte, bool) { return []byte(strings.Repeat("x", 4096)), true })
	assert.ErrorContains(t, err, "(got 4096)")
}

// A node that could choose its name or provider ID must not be able to choose what is switched.
func TestWhatNodesSayIsNoConfiguration(t *testing.T) {
	for _, fact := range []string{
		"a\nplug=7", "a\raction=on", "a\x00", "\u2028", "\xff", strings.Repeat("x", 4097),
		"a,b", "a\u0085b",
	} {
		objects := load(t, "built-in.yaml", "")
		_, err := nodeconfig.Resolve(namespace(objects),
			[]nodeconfig.Node{{Name: "w1", ProviderID: "aws:///" + fact}}).Plan("w1")
		assert.Error(t, err, "%q", fact)

		delete(objects, "fence-config-type-cloud")
		objects["fence-config-type-t"] = map[string]string{
			"config.properties": "node_name=[NODE_NAME]\nisolation=\npower_management=a\nrecovery=",
			"fence-method-a":    "agent=fence_aws\naction=reboot\nplug={{.NodeName}}",
		}
		_, err = nodeconfig.Resolve(namespace(objects), []nodeconfig.Node{{Name: fact, Type: "t"}}).Plan(fact)
		assert.Error(t, err, "%q", fact)
	}
	// What is put in is not looked at again.
	for _, fact := range []string{"{{.NodeName}}", "{{", `"a"`, ` a `, "a=b", "#a", `a\`, "$(reboot)"} {
		p := plan(t, namespace(load(t, "built-in.yaml", "")),
			nodeconfig.Node{Name: "w1", ProviderID: "aws:///x/" + fact})
		assert.Equal(t, fact, arguments(t, p.Devices()[0])["plug"])
	}
	for _, id := range []string{"", "aws:///", "aws:///x/"} {
		_, err := nodeconfig.Resolve(namespace(load(t, "built-in.yaml", "")),
			[]nodeconfig.Node{{Name: "w1", ProviderID: id}}).Plan("w1")
		expect(t, []string{"built-in/config.properties:3: node w1 has nothing for {{.InstanceID}}"},
			parts(err))
	}
}

func TestHash(t *testing.T) {
	of := func(objects map[string]map[string]string) string {
		h := plan(t, namespace(objects), nodeconfig.Node{Name: "w1"}).Hash
		require.Len(t, h, 64)
		return h
	}
	with := func(c ...[3]string) map[string]map[string]string {
		objects := load(t, "bmc-then-pdus.yaml", "w1")
		changes(c).apply(t, objects)
		return objects
	}
	original := of(with())
	assert.Equal(t, "24971b09f67216bcaa11259a4250997264c11be83c09fdb8599acbd6005283e2", original,
		"it is stored: another encoding is a change of every configuration")
	for name, same := range map[string]map[string]map[string]string{
		"comment":        with([3]string{settings, "", "# comment"}),
		"spelling":       with([3]string{settings, "power_management", "power-managment"}),
		"quotes":         with([3]string{template, "cipher=3", `cipher="3"`}),
		"a default":      with([3]string{settings, "", "retries=3"}),
		"unused method":  with([3]string{object + "/fence-method-x", "", "action=off\nagent=fence_aws\nplug=1"}),
		"old name":       with([3]string{bmcOff, "ip=", "ipaddr="}),
		"order of lines": with([3]string{template, "lanplus=1\ncipher=3", "cipher=3\nlanplus=1"}),
		"settle":         with([3]string{template, "", "settle=41s"}),
		"what off means": with([3]string{template, "", "off_is_proof=no"}),
		"device":         with([3]string{template, "", "device=the BMC"}),
		"timeout":        with([3]string{template, "", "command_timeout=41s"}),
		"step":           with([3]string{settings, "isolation=mark-unschedulable", "isolation="}),
		"retries":        with([3]string{settings, "", "retries=4"}),
		"restarts":       with([3]string{settings, "", "restarts=4"}),
		"not_ready_for":  with([3]string{settings, "", "not_ready_for=4s"}),
		"power_wait":     with([3]string{settings, "", "power_wait=4s"}),
		"boot_grace":     with([3]string{settings, "", "boot_grace=4s"}),
		"kdump":          with([3]string{settings, "", "kdump=yes"}),
		"kdump_timeout":  with([3]string{settings, "", "kdump_timeout=4s"}),
		"power_on":       with([3]string{settings, "", "power_on=manual"}),
	} {
		assert.Equal(t, original, of(same), name)
	}
	hashes := map[string]string{original: "original"}
	for name, other := range map[string]map[string]map[string]string{
		"secret":         with([3]string{template, "bmc/password", "switch/password"}),
		"plain password": with([3]string{template, "password.secret=bmc/password", "password=hunter2"}),
		"what looks as a secret": with([3]string{
			template, "username=fencer\npassword.secret=bmc/password",
			"username=secret bmc/password",
		}),
		"parameter":         with([3]string{template, "cipher=3", "cipher=4"}),
		"missing parameter": with([3]string{template, "cipher=3", ""}),
		"agent": with([3]string{
			"fence-method-template-apc/template.properties", "fence_apc_snmp",
			"fence_eaton_snmp",
		}),
		"plug": with([3]string{object + "/fence-method-pdu-a-off", "plug=5", "plug=4"},
			[3]string{object + "/fence-method-pdu-a-on", "plug=5", "plug=4"}),
		"order": with([3]string{settings, "pdu-a-off pdu-b-off", "pdu-b-off pdu-a-off"}),
	} {
		h := of(other)
		assert.Empty(t, hashes[h], name)
		hashes[h] = name
	}
	assert.Equal(t, of(withPlainPassword(t, "a")), of(withPlainPassword(t, "b")), "a hash of a password can be guessed")
}
