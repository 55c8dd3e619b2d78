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

func TestAShardHasAWeightAndAVersion(t *testing.T) {
	for flags, want := range map[string]struct {
		weight  int
		version string
	}{
		"":                        {100, ""},
		"--weight 5 --version v2": {5, "v2"},
		"--weight 0":              {0, ""},
	} {
		o, err := parse(strings.Fields("--ring r --resource secrets.v1 "+flags+" -- true"), io.Discard)
		require.NoError(t, err)
		c := o.replica()
		require.NotNil(t, c.Weight)
		assert.Equal(t, want.weight, *c.Weight, flags)
		assert.Equal(t, want.version, c.Version, flags)
	}
}

func TestARingOfSomeObjects(t *testing.T) {
	o, err := parse(strings.Fields("--ring r --resource secrets.v1 --resource pods.v1 --children services.v1 "+
		"--selector app=x,!old --namespaces a,b -- true"), io.Discard)
	require.NoError(t, err)
	resources := o.replica().Resources
	require.Len(t, resources, 2)
	for _, r := range resources {
		assert.Equal(t, "app=x,!old", r.Selector.String())
		assert.Equal(t, []string{"a", "b"}, r.Namespaces)
	}
}
