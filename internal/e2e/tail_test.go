package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestTailReadsWholeLinesOnce(t *testing.T) {
	t.Parallel()
	for name, discard := range map[string]bool{"kept": false, "discarded": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			tail := &e2e.Tail{Path: path, Discard: discard}
			t.Cleanup(func() { assert.NoError(t, tail.Close()) })
			var lines []string
			read := func() []string {
				lines = nil
				require.NoError(t, tail.Read(func(line []byte) error {
					lines = append(lines, string(line))
					return nil
				}))
				return lines
			}
			assert.Empty(t, read(), "not there yet")
			file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			defer file.Close()
			write := func(text string) {
				_, err := file.WriteString(text)
				require.NoError(t, err)
			}
			write("one\ntwo\nthr")
			assert.Equal(t, []string{"one", "two"}, read())
			write("ee\n")
			assert.Equal(t, []string{"three"}, read())
			long := strings.Repeat("x", 3<<20) // enough to be discarded
			write(long + "\nfour\n")
			assert.Equal(t, []string{long, "four"}, read())
			write("five\n")
			assert.Equal(t, []string{"five"}, read())

			refused := errors.New("refused")
			write("six\nseven\n")
			require.ErrorIs(t, tail.Read(func([]byte) error { return refused }), refused)
			assert.Equal(t, []string{"seven"}, read())
		})
	}
}
