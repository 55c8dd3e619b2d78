package leaderforlife_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// Twenty candidates race for each succession. Every other leader is deleted, and the garbage
// collector races them for the lock; the Pods of the others stay, and the candidates race for the
// deletion of the lock too.
func TestRacingCandidates(t *testing.T) {
	const candidates = 20
	successions := 20
	if os.Getenv(e2e.SoakEnv) != "" {
		successions = 100
	}
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		var all []*candidate
		join := func(n int) { all = append(all, c.candidate(c.pod(fmt.Sprint("p", n), handNode))) }
		for n := range candidates {
			join(n)
		}
		locks := map[types.UID]bool{}
		var waits []time.Duration
		ended := time.Now()
		for n := range successions {
			led := c.requireLead(all...)
			since, _ := led.leads()
			waits = append(waits, since.Sub(ended))
			lock := c.lock()
			require.Equal(t, led.pod.UID, lock.OwnerReferences[0].UID)
			require.False(t, locks[lock.UID])
			locks[lock.UID] = true
			require.Equal(t, string(lock.UID), c.get(led.pod.Name).Labels["leader.bellwether.dev/"+lockName])

			all = slices.DeleteFunc(all, func(p *candidate) bool { return p == led })
			join(candidates + n)
			for _, p := range all { // none beside the leader
				_, leads := p.leads()
				require.False(t, leads)
			}
			ended = time.Now()
			if n%2 == 0 {
				c.finish(led.pod)
			} else {
				c.report(led.pod, over(corev1.PodSucceeded, ""))
			}
		}
		led := c.requireLead(all...)
		for _, p := range all {
			p.mu.Lock()
			assert.NoError(t, p.ended)
			p.mu.Unlock()
		}
		pods, err := c.client.CoreV1().Pods(c.namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: "leader.bellwether.dev/" + lockName})
		require.NoError(t, err)
		for _, pod := range pods.Items {
			assert.True(t, pod.UID == led.pod.UID || pod.Status.Phase == corev1.PodSucceeded, "%s has kept its label",
				pod.Name)
		}
		slices.Sort(waits)
		t.Logf("%d successions among %d candidates: half within %v, the last within %v", successions, candidates,
			waits[len(waits)/2], waits[len(waits)-1])
	})
}
