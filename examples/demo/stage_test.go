package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A chapter ends at once, with what its process has said, if the process refuses to work.
func TestChapterEndsIfAProcessRefusesToWork(t *testing.T) {
	for code, want := range map[string]string{
		"1": "a has ended with exit code 1:\nkubeconfig: no such file",
		"2": "a has ended with exit code 2:\nkubeconfig: no such file",
	} {
		s := &stage{dir: filepath.Join(t.TempDir(), "chapter"), report: &report{out: os.Stdout}}
		err := perform(t.Context(), chapter{play: func(ctx context.Context, s *stage) error {
			s.program = script(t, "echo kubeconfig: no such file >&2; exit "+code)
			_, err := s.run("a", nil)
			require.NoError(t, err)
			<-ctx.Done() // what every chapter waits for, too
			return ctx.Err()
		}}, s)
		assert.EqualError(t, err, want)
	}
}

// Processes that are killed, or that end by themselves, end no chapter.
func TestChapterGoesOnWhenAProcessEnds(t *testing.T) {
	s := &stage{dir: filepath.Join(t.TempDir(), "chapter"), report: &report{out: os.Stdout}}
	require.NoError(t, perform(t.Context(), chapter{play: func(ctx context.Context, s *stage) error {
		s.program = script(t, "exit 75")
		lost, err := s.run("lost", nil)
		require.NoError(t, err)
		s.program = script(t, "sleep 1000")
		killed, err := s.run("killed", nil)
		require.NoError(t, err)
		require.NoError(t, killed.Kill())
		<-lost.Done()
		return ctx.Err()
	}}, s))
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}
