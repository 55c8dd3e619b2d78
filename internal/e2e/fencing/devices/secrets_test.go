package devices_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// careless programs get the secret as an argument from the agents, and blank it as soon as they
// run. That is beyond us, and documented.
var careless = []string{"ipmitool", "snmpwalk", "snmpget", "snmpset"}

// While fences run against devices that hang for a while, the secret is in no argument and no
// environment of the fencer or its children. Afterwards it is in no log, Event, record or Node.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	agents := map[string]string{
		"ipmilan": "fence_ipmilan", "dual PDU, APC and Eaton": "fence_apc_snmp",
		"redfish": "fence_redfish", "fabric": "fence_brocade",
	}
	for i, k := range kinds {
		if !soaking() && i > 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.build(t)
			p := s.start()
			stop := make(chan struct{})
			seen := map[string]bool{} // program: leaks
			var looking sync.WaitGroup
			looking.Go(func() {
				for {
					look(p.Pid(), seen)
					select {
					case <-stop:
						return
					case <-time.After(poll):
					}
				}
			})
			s.checked(corev1.ConditionTrue)
			for _, d := range s.devices {
				require.NoError(t, d.Freeze())
			}
			s.lose()
			s.eventually("device cannot be read",
				func() bool { return strings.Contains(s.log(p), "device cannot be read") })
			for _, d := range s.devices {
				require.NoError(t, d.Thaw())
			}
			s.reaches(v1alpha1.PhaseFinal)
			close(stop)
			looking.Wait()
			s.requireFencedOnce(s.names()...)
			require.Contains(t, slices.Collect(maps.Keys(seen)), agents[k.name], "no agent was looked at")
			require.Contains(t, slices.Collect(maps.Keys(seen)), "replica", "the fencer was not looked at")
			for program, leaks := range seen {
				assert.False(t, leaks, "an argument or the environment of %s", program)
			}
			assert.Contains(t, s.log(p), "deadline exceeded")
			s.requireNoSecretIn("the log", s.log(p))
			s.requireNoSecretsInCluster()
			s.stop(p)
		})
	}
}

// look adds the programs of a process, and of all that it has started, to seen, and whether they
// have the secret among their arguments or in their environment.
func look(root int, seen map[string]bool) {
	parents := map[int]int{}
	directories, _ := filepath.Glob("/proc/[0-9]*")
	for _, directory := range directories {
		stat, err := os.ReadFile(filepath.Join(directory, "stat"))
		_, rest, found := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if err != nil || !found || len(fields) < 2 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(directory))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		of := pid
		for of != root && of > 1 {
			of = parents[of]
		}
		if of != root {
			continue
		}
		directory := filepath.Join("/proc", strconv.Itoa(pid))
		line, lineErr := os.ReadFile(filepath.Join(directory, "cmdline"))
		environment, err := os.ReadFile(filepath.Join(directory, "environ"))
		if lineErr != nil || err != nil || len(line) == 0 {
			continue
		}
		program := "" // of a script: not that of its interpreter
		for argument := range bytes.SplitSeq(line, []byte{0}) {
			if name := filepath.Base(string(argument)); program == "" && len(argument) > 0 && argument[0] != '-' &&
				!strings.HasPrefix(name, "python") {
				program = name
			}
		}
		leaks := bytes.Contains(environment, []byte(lab.Password)) ||
			bytes.Contains(line, []byte(lab.Password)) && !slices.Contains(careless, program)
		seen[program] = seen[program] || leaks
	}
}

func (s *site) requireNoSecretIn(what, text string) {
	s.t.Helper()
	require.NotEmpty(s.t, text)
	for line := range strings.Lines(text) {
		assert.NotContains(s.t, line, lab.Password, what)
	}
}

// requireNoSecretsInCluster looks at everything that a fencer writes.
func (s *site) requireNoSecretsInCluster() {
	s.t.Helper()
	events, err := s.client.EventsV1().Events("").List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	about := 0
	for _, e := range events.Items {
		if e.Regarding.Name == v1alpha1.Name(s.node) {
			about++
		}
	}
	assert.NotZero(s.t, about, "there are no Events of the fence")
	configMaps, err := s.client.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	for what, object := range map[string]any{
		"Events": events, "the NodeFence": s.record(), "the Node": s.getNode(),
		"ConfigMaps": configMaps,
	} {
		text, err := json.MarshalIndent(object, "", " ")
		require.NoError(s.t, err)
		s.requireNoSecretIn(what, string(text))
	}
}
