package shardlease_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// TestPodsClaimNames has several claim at once, with the rights that the documentation names, and
// has others go on with the names of those that have ended.
func TestPodsClaimNames(t *testing.T) {
	t.Parallel()
	const pods = 5
	c := newCluster(t)
	user := c.namespace + "-claims"
	require.NoError(t, shared.Grant(t.Context(), user, c.namespace, rbacv1.PolicyRule{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
		Verbs: append([]string{"list"}, verbs...),
	}))
	client, err := kubernetes.NewForConfig(shardlease.LeaseConfig(shared.User(user)))
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	generation := func() (names []string, stop func()) {
		shards, claims, errs := make([]*shardlease.Lease, pods), sync.WaitGroup{}, make([]error, pods)
		for i := range pods {
			claims.Go(func() {
				shards[i], errs[i] = shardlease.ClaimOrdinal(ctx, client,
					shardlease.Config{Namespace: c.namespace, Ring: "r"})
			})
		}
		claims.Wait()
		run, cancel := context.WithCancel(ctx)
		var ended sync.WaitGroup
		for i, shard := range shards {
			require.NoError(t, errs[i])
			names = append(names, shard.Identity())
			for _, wait := range []*sync.WaitGroup{&running, &ended} {
				wait.Add(1)
			}
			go func() {
				defer running.Done()
				defer ended.Done()
				assert.NoError(t, shard.Run(run, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
			}()
		}
		slices.Sort(names)
		return names, func() { cancel(); ended.Wait() }
	}
	var want []string
	for i := range pods {
		want = append(want, fmt.Sprintf("r-%d", i))
	}
	first, stop := generation()
	assert.Equal(t, want, first)
	stop()
	second, _ := generation()
	assert.Equal(t, want, second)
}

// TestProcessesOfOneIdentityThatStartAtOnce is about the replicas of a Deployment whose identities
// were configured to be the same.
func TestProcessesOfOneIdentityThatStartAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var starts sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		starts.Go(func() { c.start(name) })
	}
	starts.Wait()
	c.requireTerm(1)
	c.sharder(0).requireStates(shardstate.Ready)
	c.requireOneAtATime()
	assert.Equal(t, 1, c.count())
}
