package leaderelection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestForeignWriteEndsTheWork measures from when an admin sends a write of the Lease, which is
// before it is committed, until the leader's work knows.
func TestForeignWriteEndsTheWork(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		const trials = 30
		c := newCluster(t, shared)
		client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(c.user("a", verbs...)))
		require.NoError(t, err)
		var latencies []time.Duration
		begun := time.Now()
		for n := range trials {
			latencies = append(latencies, c.lose(client, fmt.Sprintf("l-%d", n)))
		}
		slices.Sort(latencies)
		t.Logf("from a foreign write to the end of the work's context: %v (median), at most %v",
			latencies[trials/2], latencies[trials-1])
		assert.Less(t, latencies[trials-1], time.Second+c.gauge.Slack(begun),
			"of the %d at least one by a renewal only", trials)
	})
}

// lose leads by a Lease of its own until an admin takes it, and returns how long the news took.
func (c *cluster) lose(client kubernetes.Interface, name string) time.Duration {
	c.t.Helper()
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: c.namespace, Name: name, // with the default timing: renewals show the loss too, but every 3 s
		OnLost: func(error) {},
	})
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	told, ended := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		ended <- elector.Run(ctx, func(term context.Context) error {
			<-term.Done()
			told <- time.Now()
			<-ctx.Done() // or Run would contend again
			return nil
		})
	}()
	c.requireLookout(name, "ResponseStarted")
	sent := time.Now()
	_, err = c.client().CoordinationV1().Leases(c.namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"admin"}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
	latency := (<-told).Sub(sent)
	cancel()
	assert.ErrorIs(c.t, <-ended, leaderelection.ErrLost)
	return latency
}

// requireLookout returns when a leader watches its own record (stage ResponseStarted) or does so no
// more (ResponseComplete). A candidate's watch names no version.
func (c *cluster) requireLookout(name, stage string) e2e.AuditEvent {
	c.t.Helper()
	lease := fmt.Sprintf("/namespaces/%s/leases?fieldSelector=metadata.name%%3D%s&resourceVersion=", c.namespace, name)
	var found e2e.AuditEvent
	require.Eventually(c.t, func() bool {
		events, err := c.cp.Audit()
		require.NoError(c.t, err)
		i := slices.IndexFunc(events, func(e e2e.AuditEvent) bool {
			return e.Stage == stage && strings.Contains(e.RequestURI, lease)
		})
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	}, patience, poll, "watch of %s: no %s", name, stage)
	return found
}
