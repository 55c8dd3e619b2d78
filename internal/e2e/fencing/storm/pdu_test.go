package storm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// 24 machines hang on one PDU, which takes one session at a time and closes others. The real agent logs in by
// telnet for each call. No login is refused, and a fence takes longer by the calls of those beside it only.
func TestNodesOfOnePDU(t *testing.T) {
	t.Parallel()
	l := labtest.New(t)
	const nodes, atOnce, callsOfAFence = 24, 4, 10
	c := newCluster(t, map[string]int{"pdu": nodes, rest: 10})
	var outlets []*lab.Plug
	c.plugs = map[string]*lab.Plug{}
	for _, node := range c.groups["pdu"] {
		c.plugs[node] = lab.NewPlug(func(on bool) { c.power(node, on) })
		outlets = append(outlets, c.plugs[node])
	}
	pdu, logins, err := l.APCTelnet(outlets...)
	require.NoError(t, err)
	c.secret("pdu", lab.Password)
	c.configure("fence-method-template-pdu",
		map[string]string{"template.properties": pdu.Template("pdu", nil) + "settle=10s\noff_is_proof=yes\n"})
	for i, node := range c.groups["pdu"] {
		method := fmt.Sprintf("template=fence-method-template-pdu\nplug=%d\naction=", i+1)
		c.configure("fence-config-node-"+node, map[string]string{
			"config.properties":    fmt.Sprintf(settings, "1s"),
			"fence-method-plug-on": method + "on\n", "fence-method-plug-off": method + "off\n",
		})
	}
	for _, node := range c.groups[rest] { // without devices
		c.patch(node, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, worker))
	}
	c.run(c.groups["pdu"]...)

	limits := limits
	limits.MaxConcurrent = atOnce
	c.url = "" // real agents
	began := time.Now()
	fencer := c.start("rest-0", limits, "-timeout", "30s")
	t.Logf("%d nodes are checked after %v", nodes, time.Since(began))

	// release loses nodes, and returns how long it takes until the pods of all of them are released.
	release := func(lost []string) time.Duration {
		began := time.Now()
		for _, node := range lost {
			c.dark(node, true)
		}
		c.eventually("they are released", func() bool {
			return !slices.ContainsFunc(c.pods(),
				func(p corev1.Pod) bool { return slices.Contains(lost, p.Spec.NodeName) })
		})
		took := time.Since(began)
		c.eventually("they are back", func() bool { return c.each(lost, in(v1alpha1.PhaseFinal)) })
		return took
	}
	agents, err := fenceagents.New(fenceagents.Config{})
	require.NoError(t, err)
	one := release(c.groups["pdu"][:1])
	var call time.Duration
	for range 3 {
		alone, _, err := l.APCTelnet(lab.NewPlug(nil))
		require.NoError(t, err)
		began := time.Now()
		_, err = agents.Power(t.Context(), alone.Target("n", "1", nil))
		require.NoError(t, err)
		call = max(call, time.Since(began))
	}
	many := release(c.groups["pdu"][10 : 10+atOnce])
	t.Logf("a call takes up to %v; released after %v, and %d at once after %v", call, one, atOnce, many)
	assert.Less(t, many, one+callsOfAFence*atOnce*2*call, "as docs/fencing.md says, on a machine that is as busy")
	assert.Zero(t, logins().Refused)
	t.Logf("%d logins", logins().Served)
	c.stop(fencer)
}

// secret makes one in the namespace of the fencers.
func (c *cluster) secret(name, password string) {
	c.t.Helper()
	_, err := c.client.CoreV1().Secrets(fencer).Create(c.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": password},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}
