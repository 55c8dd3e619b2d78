package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	v, err := parseVersion("v0.2.10")
	require.NoError(t, err)
	assert.Equal(t, version{0, 2, 10}, v)
	for _, wrong := range []string{"", "0.2.0", "v0.2", "v0.2.0-rc.1", "v0.02.0", "v0.2.0.1", "v-1.0.0"} {
		_, err := parseVersion(wrong)
		assert.Error(t, err, wrong)
	}
}

func TestVersionFollowsFromTheChangesOfTheAPI(t *testing.T) {
	for _, test := range []struct {
		last   string
		c      change
		lowest string
	}{
		{"v0.1.2", unchanged, "v0.1.3"},
		{"v0.1.2", added, "v0.1.3"},
		{"v0.1.2", broken, "v0.2.0"},
		{"v1.1.2", unchanged, "v1.1.3"},
		{"v1.1.2", added, "v1.2.0"},
		{"v1.1.2", broken, "v2.0.0"},
	} {
		last, err := parseVersion(test.last)
		require.NoError(t, err)
		assert.Equal(t, test.lowest, least(last, test.c).String(), "%s since %s", test.c, test.last)
	}
	assert.NoError(t, checkVersion(version{0, 2, 0}, version{0, 1, 2}, broken))
	assert.NoError(t, checkVersion(version{1, 0, 0}, version{0, 1, 2}, broken))
	assert.EqualError(t, checkVersion(version{0, 1, 3}, version{0, 1, 2}, broken),
		"v0.1.3 is too low: with incompatible changes of the API since v0.1.2 it is at least v0.2.0")
	assert.Error(t, checkVersion(version{0, 1, 2}, version{0, 1, 2}, unchanged))
}
