package devices_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// point is where in a fence a process is killed.
type point struct {
	name string
	// plug is the device commanded last of those that prove the machine to be off
	crash func(s *site, plug *lab.Plug) (next *e2e.Process)
}

// points are those around the commands to devices.
var points = []point{
	{"before the off is sent", dies("switch off,before")},
	{"while the device obeys the off", killedDuring(false)},
	{
		"and the off lands when the next one waits for that",
		func(s *site, plug *lab.Plug) *e2e.Process { return s.landsLate(plug) },
	},
	{
		"only the agent, while the device obeys the off",
		func(s *site, plug *lab.Plug) *e2e.Process { return s.agentKilled(plug) },
	},
	{"after the off", dies("switch off")},
	{"before the on is sent", dies("switch on,before")},
	{"while the device obeys the on", killedDuring(true)},
	{"after the on", dies("switch on")},
}

// effects is how many writes and commands a fence consists of at least.
var effects = map[string]int{"ipmilan": 25, "dual PDU, APC and Eaton": 31, "redfish": 25, "fabric": 34}

// Controller or agent, or both, are killed at each of these points, and another controller goes on:
// each device gets one command to switch off, and the machine works in the end. When soaking, all
// points are tried with all kinds of devices, and more of them, spread over all that a fence does.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	held, tried := map[string]int{}, map[string]int{}
	t.Run("points", func(t *testing.T) {
		for i, k := range kinds {
			var all []point
			for j, p := range points {
				if soaking() || j == 2*i+1 { // one point for each kind
					all = append(all, p)
				}
			}
			for n := 1; soaking() && n <= effects[k.name]; n += 3 {
				death := strconv.Itoa(n)
				if n%2 == 0 {
					death += ",before"
				}
				all = append(all, point{"effect " + death, dies(death)})
			}
			for _, p := range all {
				t.Run(k.name+"/"+p.name, func(t *testing.T) {
					t.Parallel()
					defer func() {
						mu.Lock()
						defer mu.Unlock()
						tried[k.name]++
						if !t.Failed() {
							held[k.name]++
						}
					}()
					s := k.build(t)
					next := p.crash(s, s.plugs[k.last])
					s.reaches(v1alpha1.PhaseFinal)
					s.requireFencedOnce(s.names()...)
					s.stop(next)
				})
			}
		}
	})
	for _, k := range kinds {
		if soaking() {
			fmt.Printf("soak: %s: %s: killed at %d points, %d times all was well\n", t.Name(), k.name, tried[k.name],
				held[k.name])
		}
	}
}

// dies has the controller kill itself, and with it its agent.
func dies(at string) func(*site, *lab.Plug) *e2e.Process {
	return func(s *site, _ *lab.Plug) *e2e.Process {
		dying := s.start("DIE_AFTER=" + at)
		s.eventually("the machine's devices are checked", func() bool {
			select {
			case <-dying.Done(): // on a busy machine the node may have been lost for a moment, and fenced
				return true
			default:
				return s.condition("FenceReady").Status == corev1.ConditionTrue
			}
		})
		s.lose()
		s.requireKilled(dying)
		return s.successor()
	}
}

// killedDuring kills the controller when the device has acknowledged a command and its agent waits
// for the effect. The command is carried out.
func killedDuring(on bool) func(*site, *lab.Plug) *e2e.Process {
	return func(s *site, plug *lab.Plug) *e2e.Process {
		dying := s.start()
		s.checked(corev1.ConditionTrue)
		if !on {
			plug.Break(lab.Fault{Holds: true})
		}
		s.lose()
		if on {
			s.eventually("the plug is off", func() bool { return !plug.On() })
			plug.Break(lab.Fault{Holds: true})
		}
		s.eventually("the device was told", func() bool { return count(plug, on) == 1 })
		require.NoError(s.t, dying.Kill())
		plug.Break(lab.Fault{})
		plug.Land()
		return s.successor()
	}
}

// landsLate is a command that is carried out when another controller has read that it was not.
func (s *site) landsLate(plug *lab.Plug) *e2e.Process {
	dying := s.start()
	s.checked(corev1.ConditionTrue)
	plug.Break(lab.Fault{Holds: true})
	s.lose()
	s.eventually("the device was told", func() bool { return count(plug, false) == 1 })
	require.NoError(s.t, dying.Kill())
	s.timeout *= 4 // a successor waits for as long as the command may be under way: longer than this test is held up
	next := s.successor()
	s.eventually("it has read the device", func() bool { return strings.Contains(s.log(next), "ran a fence agent") })
	plug.Break(lab.Fault{})
	plug.Land()
	return next
}

// agentKilled kills what the controller has started, and not the controller. The command is carried
// out.
func (s *site) agentKilled(plug *lab.Plug) *e2e.Process {
	p := s.start()
	s.checked(corev1.ConditionTrue)
	plug.Break(lab.Fault{Holds: true})
	s.lose()
	s.eventually("the device was told", func() bool { return count(plug, false) == 1 })
	require.NoError(s.t, p.Pause()) // it must not have looked before all of this is done
	killed := 0
	for _, pid := range children(p.Pid()) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	plug.Break(lab.Fault{})
	plug.Land()
	require.NoError(s.t, p.Resume())
	require.NotZero(s.t, killed, "no agent ran")
	return p
}

// children are the fence agents that a process has started.
func children(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		line, lineErr := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		_, rest, found := strings.Cut(string(stat), ") ") // a name in parentheses, a state, the parent
		fields := strings.Fields(rest)
		if err != nil || lineErr != nil || !found || len(fields) < 2 || fields[1] != strconv.Itoa(parent) ||
			!bytes.Contains(line, []byte("fence_")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// successor starts another controller, and waits until it leads.
func (s *site) successor() *e2e.Process {
	s.t.Helper()
	next := s.start()
	s.leads(next)
	return next
}
