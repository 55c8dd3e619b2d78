package fencing

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// A BMC, then two power supplies; a port of a switch before them.
func TestALevelThatIsNotReadyFallsBackToTheNext(t *testing.T) {
	off := func(name string) nodeplan.Method {
		return nodeplan.Method{
			Name: name, Action: agent.ActionOff, Device: &nodeplan.Device{Key: name},
			MustSucceed: true,
		}
	}
	plan := nodeplan.Plan{
		Isolation:       nodeplan.Level{{Name: "mark-unschedulable", MustSucceed: true}, off("port")},
		PowerManagement: []nodeplan.Level{{off("bmc")}, {off("pdu-a"), off("pdu-b")}},
	}
	var (
		on     = reading{power: agent.PowerOn, on: true}
		silent = reading{err: errors.New("no answer")}
		isOff  = reading{power: agent.PowerOff}
		lies   = reading{power: agent.PowerOff, contradicts: true}
	)
	for name, c := range map[string]struct {
		port, bmc, a, b  reading
		known            bool
		problem, limited string
	}{
		"all is well":     {port: on, bmc: on, a: on, b: on},
		"the BMC is dead": {port: on, bmc: silent, a: on, b: on, limited: "device bmc: no answer"},
		"the BMC is another machine's": {
			port: on, bmc: lies, a: on, b: on,
			limited: "device bmc: reads off while the node works: it feeds another machine or reports a wrong state",
		},
		"a power supply cannot be read": {port: on, bmc: on, a: on, b: silent, limited: "device pdu-b: no answer"},
		"neither level can do it": {
			port: on, bmc: silent, a: on, b: silent,
			problem: "device bmc: no answer\ndevice pdu-b: no answer",
		},
		"nothing takes the port's place": {port: silent, bmc: on, a: on, b: on, problem: "device port: no answer"},
		"off, and was seen on":           {port: on, bmc: isOff, a: isOff, b: isOff, known: true},
		"off, and was never seen on": {
			port: on, bmc: isOff, a: on, b: on,
			limited: "device bmc: reads off, and was not seen on while the node worked: it may feed another machine",
		},
		"seen on once, and belied by now": {
			port: on, bmc: lies, a: lies, b: on, known: true,
			problem: "device bmc: reads off while the node works: it feeds another machine or reports a wrong " +
				"state\ndevice pdu-a: reads off while the node works: it feeds another machine or reports a " +
				"wrong state",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]reading{"port": c.port, "bmc": c.bmc, "pdu-a": c.a, "pdu-b": c.b}
			r := readyBy(plan, found, func(*nodeplan.Device) bool { return c.known })
			say := func(err error) string {
				if err == nil {
					return ""
				}
				return err.Error()
			}
			assert.Equal(t, c.problem, say(r.problem))
			if c.problem == "" {
				assert.Equal(t, c.limited, say(r.limited))
			}
		})
	}
}
