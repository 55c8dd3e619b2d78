package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAShardWithANameOfItsOwnIsInItsPod(t *testing.T) {
	o, err := parse(strings.Fields("--ring r --resource secrets.v1 --shard a --pod-uid u -- true"), io.Discard)
	require.NoError(t, err)
	hostname, err := os.Hostname()
	require.NoError(t, err)
	c := o.replica()
	assert.Equal(t, "a", c.Identity)
	assert.Equal(t, "u", c.PodUID)
	assert.Equal(t, hostname, c.PodName, "sharders watch it for the kubelet's report")
}
