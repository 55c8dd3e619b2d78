package shardlease_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestCrashOf(t *testing.T) {
	l := shardLease("a", true)
	l.UID = "lease"
	_, ok := shardlease.CrashOf(l)
	assert.False(t, ok)
	_, ok = shardlease.CrashOf(nil)
	assert.False(t, ok)

	shardrecord.MarkCrash(l, []uint64{shardrecord.DigestOf("x"), shardrecord.DigestOf("y")}, true)
	c, ok := shardlease.CrashOf(l)
	require.True(t, ok)
	assert.Equal(t, shardlease.Epoch{LeaseUID: "lease", Number: 1}, c.Epoch)
	assert.True(t, c.Complete)
	assert.True(t, c.AtWork("x"))
	assert.True(t, c.AtWork("y"))
	assert.False(t, c.AtWork("z"))

	shardrecord.MarkCrash(l, []uint64{shardrecord.DigestOf("z")}, false)
	c, ok = shardlease.CrashOf(l)
	require.True(t, ok)
	assert.False(t, c.Complete)
	assert.False(t, c.AtWork("x"))
	assert.True(t, c.AtWork("z"))

	shardrecord.MarkCrash(l, nil, true)
	c, ok = shardlease.CrashOf(l)
	require.True(t, ok)
	assert.True(t, c.Complete)

	l.Annotations[shardrecord.CrashAnnotation] = "edited by hand"
	_, ok = shardlease.CrashOf(l)
	assert.False(t, ok)

	of := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "an election's"}}
	shardrecord.MarkCrash(of, nil, true)
	assert.Empty(t, of.Annotations)
}
