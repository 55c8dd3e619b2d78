package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInstallCopiesTheProgram(t *testing.T) {
	directory := t.TempDir()
	for range 2 { // an init container may be restarted
		require.NoError(t, install(directory))
		path, err := os.Executable()
		require.NoError(t, err)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join(directory, "bellwether"))
		require.NoError(t, err)
		assert.Equal(t, sha256.Sum256(want), sha256.Sum256(have), "it is another program")
		info, err := os.Stat(filepath.Join(directory, "bellwether"))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o755), info.Mode(), "every user of the Pod may execute it")
		left, err := os.ReadDir(directory)
		require.NoError(t, err)
		assert.Len(t, left, 1)
	}
	require.Error(t, install(filepath.Join(directory, "not there")))
	assert.Equal(t, exitUsage, runInstall(nil))
}
