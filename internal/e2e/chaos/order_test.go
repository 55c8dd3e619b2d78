package chaos_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// disorder returns what is wrong with an object, or nothing. It is in order if a shard that runs
// owns it, in its present epoch, and its checksum is right.
func disorder(m *corev1.ConfigMap, alive map[string]bool, leases map[string]*coordinationv1.Lease) string {
	c := carriedBy(m)
	if !alive[c.shard] {
		return fmt.Sprintf("label %q, which is no shard that runs", c.shard)
	}
	lease := leases[c.shard]
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != c.shard {
		return c.shard + " does not hold its Lease"
	}
	epoch, err := shardlease.EpochOf(lease)
	switch {
	case err != nil:
		return err.Error()
	case c.drained:
		return "drained from " + c.shard
	case !c.owner.is(c.shard) || c.owner.LeaseUID != lease.UID || c.owner.Epoch != epoch.Number:
		return fmt.Sprintf("%s, want owned by %s in epoch %d of %s", c.owner, c.shard, epoch.Number, lease.UID)
	case m.Annotations[sumAnnotation] != checksum(m.Data):
		return "wrong checksum; its shard is " + c.shard
	}
	return ""
}

// childDisorder returns what is wrong with the children of an object in order, or nothing. An
// object that needs a child has one, with the same shard and checksum.
func childDisorder(m *corev1.ConfigMap, children []corev1.Secret) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(m.Name))
	want := 0
	if hash.Sum32()%6 < 2 {
		want = 1
	}
	if len(children) != want {
		return fmt.Sprintf("%d children, want %d", len(children), want)
	}
	for _, c := range children {
		switch {
		case c.Labels[shardLabel] != m.Labels[shardLabel]:
			return fmt.Sprintf("with %s, and its child with %q", m.Labels[shardLabel], c.Labels[shardLabel])
		case c.Annotations[sumAnnotation] != m.Annotations[sumAnnotation]:
			return "wrong checksum of its child; its shard is " + m.Labels[shardLabel]
		}
	}
	return ""
}

func checksum(data map[string]string) string {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// disorders returns the objects with what is wrong with them, and the number of objects.
func (c *cluster) disorders(ctx context.Context) (wrong map[types.UID]string, objects int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := c.client.CoordinationV1().Leases(c.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: shardstate.Selector(ringName).String()})
	if err != nil {
		return nil, 0, err
	}
	leases := map[string]*coordinationv1.Lease{}
	for i := range list.Items {
		leases[list.Items[i].Name] = &list.Items[i]
	}
	all, err := c.users.objects.List(ctx, metav1.ListOptions{LabelSelector: wantedLabel})
	if err != nil {
		return nil, 0, err
	}
	below, err := c.users.secrets.List(ctx, metav1.ListOptions{LabelSelector: parentLabel})
	if err != nil {
		return nil, 0, err
	}
	children := map[types.UID][]corev1.Secret{}
	for _, c := range below.Items {
		parent := types.UID(c.Labels[parentLabel])
		children[parent] = append(children[parent], c)
	}
	alive, wrong := c.alive(), map[types.UID]string{}
	for i := range all.Items {
		m := &all.Items[i]
		problem := disorder(m, alive, leases)
		if problem == "" {
			problem = childDisorder(m, children[m.UID])
		}
		if problem != "" {
			wrong[m.UID] = m.Name + ": " + problem
		}
	}
	return wrong, len(all.Items), nil
}

// assertOrder waits until everything is in order, and returns how long that took. On any machine, fewer
// objects must be out of order after each time of within.
func (c *cluster) assertOrder(ctx context.Context, within time.Duration) time.Duration {
	began, least, better := time.Now(), math.MaxInt, time.Now()
	for {
		wrong, objects, err := c.disorders(ctx)
		took := time.Since(began)
		if err == nil && len(wrong) == 0 && objects > 0 {
			return took
		}
		if err == nil && len(wrong) < least {
			least, better = len(wrong), time.Now()
		}
		if time.Since(better) > within || ctx.Err() != nil {
			for uid, problem := range wrong {
				c.judge.mu.Lock()
				c.judge.breached(uid, "not in order: "+problem)
				c.judge.mu.Unlock()
			}
			assert.Fail(c.t, "not in order", "after %v: %v; %d of %d objects", took, err, len(wrong), objects)
			return took
		}
		e2e.Pause(ctx, 250*time.Millisecond)
	}
}
