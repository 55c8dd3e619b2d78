package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var few = []part{
	{"first", true, time.Minute},
	{"a", false, 10 * time.Minute},
	{"b", false, time.Minute},
	{"c", false, time.Minute},
}

// machine plays one that is slower than the figures by a factor.
type machine struct {
	now    time.Time
	factor time.Duration
	ran    []string
	slow   []string // those of ran that were told so
	fails  string
}

func (m *machine) run(_ context.Context, target string, slow bool) error {
	m.ran = append(m.ran, target)
	if slow {
		m.slow = append(m.slow, target)
	}
	for _, p := range few {
		if p.name == target {
			m.now = m.now.Add(p.takes * m.factor)
		}
	}
	if target == m.fails {
		return errors.New("exit status 2")
	}
	return nil
}

func (m *machine) verify(budget time.Duration, commits int) (output string, err error) {
	var out bytes.Buffer
	v := &verification{budget: budget, run: m.run, now: func() time.Time { return m.now }, out: &out}
	err = v.verify(context.Background(), order(few, commits))
	return out.String(), err
}

func TestAllPartsRunWithoutABudget(t *testing.T) {
	m := &machine{factor: 5}
	out, err := m.verify(0, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"first", "b", "c", "a"}, m.ran)
	assert.NotContains(t, out, "NOT RUN")
}

func TestPartsThatTheBudgetIsTooSmallForAreNamed(t *testing.T) {
	m := &machine{factor: 3}
	out, err := m.verify(8*time.Minute, 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"first", "b"}, m.ran, "3 min each here, and 2 min are left for c")
	assert.Contains(t, out, "NOT RUN: a, c.")
	assert.Contains(t, out, "not run: 5m0s left of 8m0s, and it takes some 30m0s here")
}

func TestWhatEveryChangeNeedsRunsWhateverTheBudget(t *testing.T) {
	m := &machine{factor: 3}
	out, err := m.verify(time.Second, 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"first"}, m.ran)
	assert.Contains(t, out, "NOT RUN: a, b, c.")
}

func TestEveryPartComesFirstInItsTurn(t *testing.T) {
	first := map[string]bool{}
	for commits := range 3 {
		first[order(few, commits)[1].name] = true
	}
	assert.Len(t, first, 3)
}

func TestAPartThatFailsStopsNoOther(t *testing.T) {
	m := &machine{factor: 1, fails: "first"}
	out, err := m.verify(0, 0)
	require.EqualError(t, err, "failed: first")
	assert.Equal(t, []string{"first", "a", "b", "c"}, m.ran)
	assert.Contains(t, out, "FAILED: exit status 2")
}

func TestOnASlowMachineLessRunsAtATime(t *testing.T) {
	for factor, slow := range map[time.Duration][]string{2: nil, 3: {"a", "b", "c"}} {
		m := &machine{factor: factor}
		_, err := m.verify(0, 0)
		require.NoError(t, err)
		assert.Equal(t, slow, m.slow, "factor %d", factor)
	}
}

func TestEachNightRunsAllParts(t *testing.T) {
	workflow, err := os.ReadFile("../../.github/workflows/test.yml")
	require.NoError(t, err)
	for _, p := range parts {
		assert.Contains(t, string(workflow), "\n          - "+p.name+"\n")
	}
}

func TestPartsAreTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	for _, p := range parts {
		assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(p.name)+`: .*## `, string(makefile), "make help must show %s", p.name)
	}
}
