package fencing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// Somebody gives a node another plug while it is fenced. The leader that has begun goes on with
// what it began with. The next controller has lost that knowledge. It switches no other plug in
// this incident and releases nothing on the word of another plug. It says what it waits for, and
// goes on when the configuration is put back.
func TestConfigurationThatChangesWhileAFenceIsUnderWay(t *testing.T) {
	const object = "fence-config-type-worker"
	off := func(plug string) string {
		return "template=fence-method-template-rack\nplug=" + plug + "\naction=off\n"
	}
	on := func(plug string) string { return "template=fence-method-template-rack\nplug=" + plug + "\naction=on\n" }
	change := map[string]func(w *world){
		"another plug": func(w *world) {
			w.change(object, "fence-method-plug-off", off("other-{{.NodeName}}"))
			w.change(object, "fence-method-plug-on", on("other-{{.NodeName}}"))
		},
		"other settings": func(w *world) { // all of those that do not decide which plug is switched off, and how
			w.change(object, "fence-method-plug-off", off("{{.NodeName}}")+"command_timeout=40s\n")
			w.change(object, "fence-method-plug-on", on("{{.NodeName}}")+"command_timeout=40s\n")
			w.change(object, "config.properties", strings.NewReplacer(
				"=20s", "=21s", "=10s", "=11s", "=5m", "=6m",
			).Replace(settings)+"retries=7\nrestarts=7\nkdump_timeout=41s\n")
		},
		"rubbish": func(w *world) { w.change(object, "config.properties", "rubbish") },
	}
	back := func(w *world) {
		w.change(object, "fence-method-plug-off", off("{{.NodeName}}"))
		w.change(object, "fence-method-plug-on", on("{{.NodeName}}"))
		w.change(object, "config.properties", settings)
	}
	for what, change := range variants(change) {
		for name, moment := range map[string]v1alpha1.Phase{
			"when a command was sent":  v1alpha1.PhasePowering,
			"when the machine was off": v1alpha1.PhaseRestoring,
		} {
			for leader, other := range map[string]bool{"the same leader": false, "the next leader": true} {
				held := other && what != "other settings"
				t.Run(what+"/"+name+"/"+leader, func(t *testing.T) {
					inWorld(t, 3, func(w *world) {
						breaches := w.referee()
						r := &told{}
						w.pod("db-0", "n1")
						begin := func(name string) *replica {
							return w.start(name, func(c *fencing.Config) { c.Events = r })
						}
						a := begin("a")
						wait(w.ctx, settled)
						w.rack.Break("n1", fencingtest.Fault{Takes: 20 * time.Second})
						w.cutOff("n1", true)
						w.ends("n1", moment)
						w.eventually(time.Minute, "a command was sent",
							func() bool { return w.rack.Count("n1", "command", agent.ActionOff) == 1 })
						if other {
							a.kill()
						}
						change(w)
						if other {
							a = begin("b")
						}
						defer a.stop()
						if held {
							wait(w.ctx, 35*time.Minute)
							if moment == v1alpha1.PhasePowering {
								assert.Equal(t, []string{"db-0"}, w.pods("n1"),
									"nothing is proved by what is configured now")
							}
							hold := w.fence("n1").Status.Hold
							require.NotNil(t, hold, "%+v", w.fence("n1").Status)
							assert.Contains(t, []string{"ConfigurationChanged", "NotConfigured"}, hold.Reason)
							assert.GreaterOrEqual(t, r.count("Warning "+hold.Reason), 2,
								"and it is said again and again: %v", r.counts)
							back(w)
						}
						w.rack.Break("n1", fencingtest.Fault{})
						w.eventually(5*time.Minute, "the pod is released",
							func() bool { return len(w.pods("n1")) == 0 })
						w.cutOff("n1", false)
						if !held {
							w.eventually(10*time.Minute, "the machine is on", func() bool { return w.rack.On("n1") })
							back(w) // recovery is of the present
						}
						w.ends("n1", v1alpha1.PhaseFinal)
						assert.Empty(t, breaches())
						assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff))
						assert.True(t, w.rack.On("n1"))
					})
				})
			}
		}
	}
}
