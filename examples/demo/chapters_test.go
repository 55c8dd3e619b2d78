package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChaptersAreChosenByNameOrNumber(t *testing.T) {
	all, err := choose("")
	require.NoError(t, err)
	assert.Len(t, all, len(chapters))
	for i, c := range chapters {
		for _, wanted := range []string{c.name, string(rune('1' + i))} {
			chosen, err := choose(wanted)
			require.NoError(t, err)
			require.Len(t, chosen, 1)
			assert.Equal(t, c.name, chosen[0].name)
		}
	}
	for _, wrong := range []string{"0", "-1", "7", "sharding,life", "Sharding", " ", "shardin"} {
		_, err := choose(wrong)
		require.ErrorContains(t, err, wrong)
		for _, c := range chapters {
			assert.ErrorContains(t, err, c.name)
		}
	}
}

func TestMissingRequirementsAreReported(t *testing.T) {
	t.Setenv("BELLWETHER_LAB", "")
	t.Setenv("PATH", t.TempDir())
	assert.Contains(t, noLab(genuine), "openipmi ipmitool")
	assert.Contains(t, noLab(genuine), "make lab")
	assert.Contains(t, noNodes(own), "nodes with a real kubelet. realnode: ")
	assert.Contains(t, noNodes(embedded), "CHAPTER=nodes")
	t.Setenv("BELLWETHER_LAB", "0")
	assert.Contains(t, noLab(genuine), "LAB=0")
	for _, where := range []place{embedded, foreign} {
		assert.Contains(t, noLab(where), "CONTROLPLANE=real")
	}
	assert.Contains(t, noPods(foreign), "nodes")
	assert.Empty(t, noPods(genuine)+noPods(embedded))
}

// Not even a control plane is started for it, which takes minutes the first time.
func TestChapterThatLacksSomethingIsNotPlayed(t *testing.T) {
	var printed page
	d := demo{report: &report{out: &printed}, place: genuine}
	c := chapter{name: "x", about: "y", lacks: func(where place) string {
		assert.Equal(t, genuine, where)
		return "it needs much."
	}}
	require.NoError(t, d.run(t.Context(), []chapter{c}))
	assert.Equal(t, []string{"", "== x: y", "Not played: it needs much."}, printed.lines())
}
