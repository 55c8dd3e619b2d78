package fencing_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// The API server is out of reach from some effect on. The fence ends when the server is back: after
// a short outage by the same fencer, after a long one by a fencer that was restarted, as a kubelet
// would do. The times are logged.
func TestFencerOutlastsOutages(t *testing.T) {
	t.Parallel()
	outages, tries := []time.Duration{time.Second, 8 * time.Second}, 1
	if soaking() {
		// the last one leaves nothing to do
		outages, tries = append(outages, 3*time.Second, 20*time.Second, time.Minute), effectsOfAFence-1
	}
	for _, outage := range outages {
		for try := range tries {
			effect := try + 1
			if !soaking() {
				effect = 1 + rand.IntN(effectsOfAFence-1)
			}
			t.Run(fmt.Sprintf("%v at %d", outage, effect), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, false)
				l.database(time.Hour)
				proxy, err := shared.Proxy()
				require.NoError(t, err)
				begun := make(chan struct{})
				cut := sync.OnceFunc(func() {
					proxy.Cut()
					close(begun)
				})
				config := proxy.Config(l.user())
				p := l.startBy(config, func(line string) {
					if strings.HasPrefix(line, fmt.Sprintf("effect %d:", effect)) {
						cut()
					}
				})
				l.checked()
				l.lose()
				l.eventually("the outage has begun", func() bool {
					select {
					case <-begun:
						return true
					case <-p.Done(): // it has lost its leadership before
						require.NoError(t, p.Restart())
					default:
					}
					return false
				})
				time.Sleep(outage) // what is tested is a fence that waits
				proxy.Heal()
				back := time.Now()
				l.eventually("the fence ends", func() bool {
					select {
					case <-p.Done(): // it has lost its leadership
						p = l.startBy(config, nil)
					default:
					}
					return l.phase() == v1alpha1.PhaseFinal
				})
				t.Logf("ended %.1f s after the return", time.Since(back).Seconds())
				l.requireRecovered()
				l.stop(p)
			})
		}
	}
}

// A fencer that is cut off from the API server fences no node, however often it is started.
func TestFencerThatIsCutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.database(time.Hour)
	proxy, err := shared.Proxy()
	require.NoError(t, err)
	config := proxy.Config(l.user())
	p := l.startBy(config, nil)
	l.checked()
	proxy.Cut()
	l.lose()
	ended := func(p *e2e.Process) bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	}
	l.eventually("it has lost its leadership", func() bool { return ended(p) })
	p = l.startBy(config, nil)
	l.never("it fences", 5*time.Second, func() bool { return l.record() != nil || len(l.rack.Events()) > 0 })
	proxy.Heal()
	l.eventually("the fence ends", func() bool {
		if ended(p) {
			p = l.startBy(config, nil)
		}
		return l.phase() == v1alpha1.PhaseFinal
	})
	l.requireRecovered()
	assert.Len(t, l.rack.Events(), 4, "two commands, two changes")
	l.stop(p)
}
