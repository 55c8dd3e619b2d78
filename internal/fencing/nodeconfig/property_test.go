package nodeconfig_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Steps of any methods: what is accepted can be carried out.
func TestPlansCanBeCarriedOut(t *testing.T) {
	accepted, refused := 0, 0
	for range 20 {
		rapid.Check(t, func(r *rapid.T) {
			data := map[string]string{}
			var off, on, all []string
			for i := range rapid.IntRange(1, 3).Draw(r, "devices") {
				device := fmt.Sprintf("agent=fence_apc_snmp\nip=p\nplug=%d\naction=",
					rapid.IntRange(max(1, i), i+1).Draw(r, "plug"))
				for _, action := range []string{"off", "on", "reboot"} {
					data[fmt.Sprintf("fence-method-%s-%d", action, i)] = device + action
					all = append(all, fmt.Sprintf("%s-%d", action, i))
				}
				off, on = append(off, fmt.Sprintf("off-%d", i)), append(on, fmt.Sprintf("on-%d", i))
			}
			step := func(name string, usual ...string) string {
				if rapid.IntRange(0, 5).Draw(r, "unusual "+name) == 0 {
					usual = rapid.SliceOfN(rapid.SampledFrom(append(all, "clean-pods", "delete-node")), 0, 4).Draw(r,
						name)
				}
				return name + "=" + strings.Join(usual, " ") + "\n"
			}
			power := append(off, on...)
			if rapid.Bool().Draw(r, "any order") {
				power = rapid.Permutation(power).Draw(r, "power")
			}
			data["config.properties"] = "node_name=w1\n" + step("isolation",
				"mark-unschedulable") + step("power_management", power...) +
				step("recovery",
					"mark-schedulable") + "power_on=" + rapid.SampledFrom([]string{"always", "never", "manual"}).Draw(r,
				"power_on")
			p, err := nodeconfig.Resolve(namespace(map[string]map[string]string{"fence-config-node-w1": data}),
				[]nodeconfig.Node{{Name: "w1"}}).Plan("w1")
			if err != nil {
				refused++
				return
			}
			accepted++
			check(t, p, "")
		})
	}
	require.Greater(t, accepted, 100)
	require.Greater(t, refused, 100)
}
