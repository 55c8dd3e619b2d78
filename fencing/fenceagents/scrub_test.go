package fenceagents

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// No part of a secret is left, wherever what was kept begins, and wherever the agent was killed.
func TestSecretsAreScrubbedWhereverOutputIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := strings.Repeat(rapid.StringMatching(`[A-Z]{4,40}`).Draw(t, "secret"),
			rapid.SampledFrom([]int{1, 1, 50}).Draw(t, "times"))
		unit := rapid.StringMatching(`[a-z \n]{0,5}`).Draw(t, "between") + secret
		size := rapid.SampledFrom([]int{0, maxTail}).Draw(t, "least") + rapid.IntRange(0, 200).Draw(t, "more")
		text := strings.Repeat(unit, size/len(unit)+1)[:size]
		var kept tail
		for len(text) > 0 {
			n := rapid.IntRange(1, maxTail).Draw(t, "at once")
			_, _ = kept.Write([]byte(text[:min(n, len(text))]))
			text = text[min(n, len(text)):]
		}
		got := scrub(kept, agent.Metadata{}, agent.NewParameters(map[string]string{"password": secret}))
		assert.Falsef(t, strings.ContainsAny(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "%q", got)
		assert.LessOrEqual(t, len(got), maxComplaint+len("… "))
	})
}

func TestSecretsAreHiddenWithTheirOverlaps(t *testing.T) {
	for _, test := range []struct {
		text    string
		cut     bool
		secrets []string
		want    string
	}{
		{"password is abcd.", false, []string{"abcd"}, "password is [hidden]."},
		{"abcdef", false, []string{"abcd", "cdef"}, "[hidden]"},
		{"abcdabcd.", false, []string{"abcd"}, "[hidden]."},
		{"aaaaa.", false, []string{"aaa"}, "[hidden]."},
		{"is abc", false, []string{"abcd"}, "is [hidden]"},
		{"bcd is", false, []string{"abcd"}, "bcd is"},
		{"bcd is", true, []string{"abcd"}, "[hidden] is"},
		{"nothing", true, nil, "nothing"},
		{"", true, []string{"abcd"}, ""},
	} {
		assert.Equal(t, test.want, hide(test.text, test.cut, test.secrets), test.text)
	}
}

func TestShortValuesAreHiddenIfTheyAreSecrets(t *testing.T) {
	written := tail{kept: []byte("abc does not work with 3, 12 or 4.5, nor with worker-1\n")}
	got := scrub(written,
		agent.Metadata{Parameters: []agent.ParameterSpec{
			{Name: "timeout", Type: agent.TypeInteger},
			{Name: "suite", Type: agent.TypeString},
		}},
		agent.NewParameters(map[string]string{
			"password": "abc", "secret_key": "12", "suite": "3", "timeout": "4.5",
			"plug": "worker-1", "other": "work with",
		}))
	assert.Equal(t, "[hidden] does not [hidden] 3, [hidden] or 4.5, nor with worker-1", got)
}

// Some agents give a password no type, one of their own, or that of a number.
func TestSecretsOfAnyTypeAreHidden(t *testing.T) {
	written := tail{kept: []byte("login with hunter2, 31415926 and open-sesame fails after 1000 s, onoff, true\n")}
	for _, kind := range []agent.ParameterType{"", "password", agent.TypeString} {
		got := scrub(written,
			agent.Metadata{Parameters: []agent.ParameterSpec{
				{Name: "password", Type: kind},
				{Name: "login_secret", Type: agent.TypeInteger},
				{Name: "phrase", Type: kind},
				{Name: "timeout", Type: agent.TypeInteger},
				{Name: "delay", Type: agent.TypeSecond},
				{Name: "method", Type: agent.TypeSelect},
				{Name: "ssl", Type: agent.TypeBoolean},
			}},
			agent.NewParameters(map[string]string{
				"password": "hunter2", "login_secret": "31415926", "phrase": "open-sesame", "timeout": "1000",
				"delay": "1000", "method": "onoff", "ssl": "true",
			}))
		assert.Equal(t, "login with [hidden], [hidden] and [hidden] fails after 1000 s, onoff, true", got, kind)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept tail
		var all string
		for _, size := range rapid.SliceOfN(rapid.IntRange(0, 3*maxTail/2), 0, 5).Draw(t, "sizes") {
			piece := strings.Repeat(rapid.StringMatching(`[a-z]`).Draw(t, "letter"), size)
			n, err := kept.Write([]byte(piece))
			assert.NoError(t, err)
			assert.Equal(t, size, n)
			all += piece
		}
		assert.Equal(t, all[max(0, len(all)-maxTail):], string(kept.kept))
		assert.Equal(t, len(all) > maxTail, kept.dropped)
	})
}

// Warnings of Python and of agents are no reason why a device cannot be read, nor is the time: a
// condition of a Node would be written with each reading.
func TestTidyOutput(t *testing.T) {
	for name, c := range map[string]struct{ written, said string }{
		"an agent that does not reach the cloud": {
			"WARNING:root:Parse error: Ignoring unknown option 'ip=127.0.0.1'\n\n" +
				"2026-11-22 17:29:30,001 WARNING: Parse error: Ignoring unknown option 'ip=127.0.0.1'\n\n" +
				"ERROR:root:Failed: Incorrect Region.\n\n2026-11-22 17:29:30,515 ERROR: Failed: Incorrect Region.\n\n" +
				"ERROR:root:Please use '-h' for usage\n\n2026-11-22 17:29:30,516 ERROR: Please use '-h' for usage\n\n",
			"Failed: Incorrect Region.",
		},
		"old libraries": {
			"/usr/lib/python3/dist-packages/pysnmp/x.py:12: DeprecationWarning: asyncore is deprecated\n  import " +
				"asyncore\n" +
				"/usr/sbin/fence_redfish:5: InsecureRequestWarning: Unverified HTTPS request\n  " +
				"warnings.warn(\nConnection timed out\n",
			"Connection timed out",
		},
		"nothing but warnings": {
			"WARNING:root:Parse error: Ignoring unknown option 'a=b'\n",
			"WARNING:root:Parse error: Ignoring unknown option 'a=b'",
		},
		"a traceback": {
			"Traceback (most recent call last):\n  File \"/usr/sbin/fence_x\", line 3, in <module>\n    " +
				"main()\nValueError: no\n",
			`Traceback (most recent call last): File "/usr/sbin/fence_x", line 3, in <module> main() ValueError: no`,
		},
		"no answer": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.said, scrub(tail{kept: []byte(c.written)}, agent.Metadata{}, agent.Parameters{}))
		})
	}
}
