package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// An API server that does not answer says nothing of the flags.
func TestAnUnansweredQuestionIsNoWrongFlag(t *testing.T) {
	var usage usageError
	for _, unanswered := range []error{
		&url.Error{Op: "Get", URL: "https://192.0.2.1/api", Err: errors.New("no route to host")},
		apierrors.NewServiceUnavailable("starting"),
	} {
		assert.NotErrorAs(t, ofFlags(fmt.Errorf("Resources[0].GVR: %w", unanswered)), &usage)
	}
	assert.ErrorAs(t, ofFlags(errors.New("Resources[0].GVR: not served")), &usage)
}
