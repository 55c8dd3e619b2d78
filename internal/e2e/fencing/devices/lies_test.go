package devices_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// lie is a way in which a device does something else than it says or was asked to do.
type lie struct {
	name  string
	build func(t *testing.T) *site
	// tell is called when a fencer has checked the devices: from then on they lie. It loses the
	// machine.
	tell func(s *site, fencer *e2e.Process)
	// unusable: the check has found out.
	unusable bool
	// truly: the machine may lose its power nevertheless, and then it may be fenced.
	truly bool
	// deaf: the machine may be left without power, if the record says so: no agent that is to
	// switch it on again may get through in its time.
	deaf bool
}

var lies = []lie{
	{name: "acknowledges, and does nothing", build: newBMCSite, tell: func(s *site, _ *e2e.Process) {
		s.plugs["bmc"].Break(lab.Fault{Ignores: true})
		s.lose()
	}},
	{
		name: "obeys when the agent has given up", build: newBMCSite, truly: true,
		tell: func(s *site, fencer *e2e.Process) {
			s.plugs["bmc"].Break(lab.Fault{Holds: true})
			s.lose()
			s.eventually("the agent has given up",
				func() bool { return strings.Contains(s.log(fencer), "command sent") })
			s.plugs["bmc"].Break(lab.Fault{})
			s.plugs["bmc"].Land()
		},
	},
	{
		name: "is slower than agents may take", build: newRedfishSite, truly: true, deaf: true,
		tell: func(s *site, _ *e2e.Process) {
			s.plugs["bmc"].Break(lab.Fault{Slow: s.timeout})
			s.lose()
		},
	},
	{name: "hangs", build: newBMCSite, tell: func(s *site, _ *e2e.Process) {
		require.NoError(s.t, s.devices["ipmi"].Freeze())
		s.lose()
	}},
	{name: "does not know the password any more", build: func(t *testing.T) *site {
		s := newBMCSite(t)
		s.setting("power_wait=12s") // Secrets are read again after 10 s
		return s
	}, tell: func(s *site, _ *e2e.Process) {
		_, err := s.client.CoreV1().Secrets(s.namespace).Patch(s.t.Context(), "power", types.StrategicMergePatchType,
			[]byte(`{"stringData":{"password":"another"}}`), metav1.PatchOptions{})
		require.NoError(s.t, err)
		s.lose()
	}},
	{name: "has no such plug", unusable: true, tell: lost, build: func(t *testing.T) *site {
		s := newSite(t)
		eaton, err := s.lab.Eaton(s.machine.Feed())
		require.NoError(t, err)
		s.template("eaton", eaton, nil)
		s.configure("mark-unschedulable", "mark-schedulable", []string{"pdu-off pdu-on"},
			s.device("pdu", "eaton", "9", lab.NewPlug(nil)))
		return s
	}},
	{name: "reads off for a plug that it does not have", unusable: true, tell: lost, build: func(t *testing.T) *site {
		s := newSite(t)
		apc, err := s.lab.APC(s.machine.Feed())
		require.NoError(t, err)
		s.template("apc", apc, map[string]string{"snmp_version": "2c"})
		s.configure("mark-unschedulable", "mark-schedulable", []string{"pdu-off pdu-on"},
			s.device("pdu", "apc", "9", lab.NewPlug(nil)))
		return s
	}},
	{name: "switches half of the feeds", build: newPDUSite, tell: func(s *site, _ *e2e.Process) {
		s.plugs["pdu-b"].Break(lab.Fault{Ignores: true})
		s.lose()
	}},
	{name: "switches on again by itself", build: newBMCSite, truly: true, tell: func(s *site, _ *e2e.Process) {
		s.lose()
		s.eventually("it is off", func() bool { return !s.plugs["bmc"].On() })
		s.plugs["bmc"].Press(true)
	}},
	{name: "is another machine's", tell: lost, build: func(t *testing.T) *site {
		s := newSite(t)
		other := lab.NewMachine(func(on bool) {
			if !on { // by chance, this is when the node is heard of again
				assert.NoError(t, s.process.Resume())
				s.setReady(corev1.ConditionTrue)
			}
		})
		bmc, err := s.lab.BMC(other.Chassis())
		require.NoError(t, err)
		s.template("ipmi", bmc, nil)
		s.configure("mark-unschedulable", "mark-schedulable", []string{"bmc-off bmc-on"},
			s.device("bmc", "ipmi", "", other.Chassis()))
		return s
	}},
}

func lost(s *site, _ *e2e.Process) { s.lose() }

// Whatever a device says, pods are taken from a machine only while it has no power, and nothing is
// left switched off.
func TestLyingDevices(t *testing.T) {
	t.Parallel()
	var believed atomic.Int32
	t.Run("lies", func(t *testing.T) {
		for _, l := range lies {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Failed() {
						believed.Add(1)
					}
				}()
				s := l.build(t)
				s.setting("retries=1", "restarts=0")
				fencer := s.start()
				s.checked(map[bool]corev1.ConditionStatus{
					false: corev1.ConditionTrue,
					true:  corev1.ConditionFalse,
				}[l.unusable])
				l.tell(s, fencer)
				s.eventually("the fence has ended, or is held", func() bool {
					f := s.record()
					return f != nil &&
						(f.Status.Phase == v1alpha1.PhaseGivenUp || f.Status.Phase == v1alpha1.PhaseFinal ||
							l.unusable && f.Status.Hold != nil)
				})
				s.requireReleasesProved()
				if !l.truly {
					s.requireNotFenced()
				}
				for name, plug := range s.plugs {
					assert.LessOrEqual(t, count(plug, false), 1, "%s: %+v", name, plug.Commands())
					assert.True(t, plug.On() || l.deaf &&
						meta.IsStatusConditionTrue(s.record().Status.Conditions, v1alpha1.ConditionPoweredOff),
						"%s is left off", name)
				}
				t.Logf("ends %s: %+v", s.phase(), s.record().Status.Hold)
			})
		}
	})
	if soaking() {
		fmt.Printf("soak: %s: %d kinds of lies, %d believed\n", t.Name(), len(lies), believed.Load())
	}
}
