package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	o, err := parse(strings.Fields("--lease l --namespace n --duration 30s --grace 5s -- sh -c --lease"), io.Discard)
	require.NoError(t, err)
	assert.Equal(t, "l", o.election.Name)
	assert.Equal(t, "n", o.election.Namespace)
	assert.Equal(t, 30*time.Second, o.election.LeaseDuration)
	assert.Equal(t, 5*time.Second, o.grace)
	assert.Equal(t, []string{"sh", "-c", "--lease"}, o.arguments)
	require.NoError(t, o.find())
	assert.True(t, strings.HasSuffix(o.program, "/sh"), o.program)
}

func TestCredentialsAreInADirectory(t *testing.T) {
	directory := t.TempDir()
	o, err := parse([]string{"--lease", "l", "--credentials", directory, "--", "true"}, io.Discard)
	require.NoError(t, err)
	refused := func(why string) {
		t.Helper()
		_, flag, err := o.cluster()
		assert.Equal(t, "--credentials", flag)
		require.ErrorContains(t, err, why)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	refused("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set, as in a Pod")
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	refused("namespace: no such file")
	for _, name := range []string{"token", "ca.crt", "namespace"} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte("the "+name), 0o600))
	}
	cluster, _, err := o.cluster()
	require.NoError(t, err)
	config, err := cluster.ClientConfig()
	require.NoError(t, err)
	assert.Equal(t, "https://[fd00::1]:6443", config.Host)
	assert.Equal(t, filepath.Join(directory, "ca.crt"), config.CAFile)
	assert.Equal(t, filepath.Join(directory, "token"), config.BearerTokenFile, "a kubelet renews it")
	namespace, _, err := cluster.Namespace()
	require.NoError(t, err)
	assert.Equal(t, "the namespace", namespace)
}

func TestAFlagWithoutAValueNeedsNone(t *testing.T) {
	o, err := parse(strings.Fields("--ring r --resource secrets.v1 --show-marks -- true"), io.Discard)
	require.NoError(t, err)
	assert.True(t, o.ring.showMarks)
	assert.Equal(t, 2*time.Second, o.ring.quiet)
	assert.Equal(t, []string{"true"}, o.arguments)
}

func TestWrongOptionsAreNamed(t *testing.T) {
	_, err := parse([]string{"--grace=-1s"}, io.Discard)
	for _, flag := range []string{"--lease", "--grace", "PROGRAM"} {
		assert.ErrorContains(t, err, flag)
	}
	for _, c := range []struct {
		rule  string
		flags string
	}{
		{`invalid value "soon" for flag -duration`, "--duration=soon"},
		{"lease: must be given once", "--lease a --lease b"},
		{"grace: must be given once", "--grace 1s --grace=1s"},
		{"--health-address: must be host:port", "--health-address 8080"},
		{"--after: must not be set with --pod-uid", "--after true --pod-uid 1"},
		{`--credentials: must not be set with --kubeconfig (got "d" and "k")`, "--credentials d --kubeconfig k"},
		{"--quiet: must be set with --ring", "--lease l --quiet 1s"},
		{"--weight: must be set with --ring", "--lease l --weight 5"},
		{"--version: must be set with --ring", "--lease l --version 2"},
		{"--weight: must be from 0 to 1000 (got 1001)", "--ring r --resource secrets.v1 --weight 1001"},
		{"--weight: must be from 0 to 1000 (got -1)", "--ring r --resource secrets.v1 --weight=-1"},
		{`invalid value "few" for flag -weight`, "--ring r --weight few"},
		{`invalid value "a=(" for flag -selector: `, "--ring r --selector a=("},
		{
			`"shard.bellwether.dev/x=a" for flag -selector: must not name shard.bellwether.dev/x, a label of rings`,
			"--ring r --selector shard.bellwether.dev/x=a",
		},
		{`invalid value "a," for flag -namespaces: "": a lowercase RFC 1123 label must`, "--ring r --namespaces a,"},
		{`invalid value "a,b,a" for flag -namespaces: "a": must be named once`, "--ring r --namespaces a,b,a"},
		{`invalid value "a/b/c" for flag -own-election: must be namespace/name`, "--ring r --own-election a/b/c"},
		{"flag -namespaces: must be given once", "--ring r --namespaces a --namespaces b"},
		{"--identity: must not be set with --ring, where --shard names the replica", "--ring r --identity i"},
	} {
		_, err := parse(strings.Fields("--namespace n "+c.flags+" -- true"), io.Discard)
		assert.ErrorContains(t, err, c.rule)
	}
	var usage strings.Builder
	_, err = parse([]string{"--help"}, &usage)
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, usage.String(), "usage: bellwether run {--lease NAME")
	assert.Contains(t, usage.String(), "(default 15s)")
}

func TestExitCodeOfAProgramThatDoesNotStart(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{&exec.Error{Name: "x", Err: exec.ErrNotFound}, 127},
		{fmt.Errorf("stat x: %w", fs.ErrNotExist), 127},
		{&exec.Error{Name: "x", Err: fs.ErrPermission}, 126},
		{errors.New("exec format error"), 126},
	} {
		assert.Equal(t, c.code, exitOf(c.err), c.err)
	}
}
