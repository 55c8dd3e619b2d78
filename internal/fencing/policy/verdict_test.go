package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

func TestNames(t *testing.T) {
	assert.Equal(t, "Hold Wait Deny Allow Verdict(4)",
		policy.Hold.String()+" "+policy.Wait.String()+" "+policy.Deny.String()+" "+policy.Allow.String()+" "+
			policy.Verdict(4).String())
	var names []string
	for g := policy.Gate(0); g <= policy.GateConcurrency+1; g++ {
		names = append(names, g.String())
	}
	assert.Equal(t, []string{
		"Gate(0)", "Identity", "Machine", "Selection", "OwnHost", "Admin", "Duration", "Readiness", "OwnPartition",
		"Storage",
		"Storm", "ZoneStorm", "CoolDown",
		"ControlPlane", "Repeats", "Return", "Rate", "Concurrency", "Gate(18)",
	}, names)
	names = nil
	for f := policy.FenceNone; f <= policy.FenceGivenUp+1; f++ {
		names = append(names, f.String())
	}
	assert.Equal(t, []string{"None", "Queued", "Active", "Booting", "GivenUp", "Fence(5)"}, names)
}
