package fenceagents_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
)

// The table of the documentation says of each agent what the code takes it for.
func TestTableOfWhatOffMeans(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## What off means\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var proving, all []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `fence_") || len(cells) != 3 {
			continue
		}
		for _, name := range regexp.MustCompile("`(fence_[a-z0-9_]+)`").FindAllStringSubmatch(cells[0], -1) {
			all = append(all, name[1])
			if strings.TrimSpace(cells[2]) == "yes |" {
				proving = append(proving, name[1])
			}
		}
	}
	assert.ElementsMatch(t, fenceagents.ProvingOff, proving)
	slices.Sort(all)
	assert.Equal(t, slices.Compact(slices.Clone(all)), all, "each has one row")
}
