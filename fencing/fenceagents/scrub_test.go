package fenceagents

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Whatever an agent with a secret writes, however it is cut, only words of the vocabulary are left, and no word of
// the secret.
func TestSecretsAreScrubbedWhereverOutputIsCut(t *testing.T) {
	known := strings.Fields(vocabulary)
	rapid.Check(t, func(t *rapid.T) {
		secret := strings.Repeat(rapid.OneOf(rapid.StringN(1, 40, -1), rapid.SampledFrom(known)).Draw(t, "secret"),
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
		for _, word := range wordsOf(got) {
			if len(word) > 3 || strings.Trim(word, "0123456789") != "" {
				assert.Containsf(t, known, strings.ToLower(word), "%q", got)
			}
			assert.NotContains(t, wordsOf(secret), word)
		}
		assert.LessOrEqual(t, len(got), maxComplaint+len("… "))
	})
}

func TestVocabularyIsInOrder(t *testing.T) {
	known := strings.Fields(vocabulary)
	assert.True(t, slices.IsSorted(known))
	assert.Equal(t, known, strings.Fields(strings.ToLower(vocabulary)))
	assert.Equal(t, slices.Compact(slices.Clone(known)), known)
}

func TestWhatIsSaidOfASecret(t *testing.T) {
	for text, want := range map[string]string{
		"Unable to connect/login to fencing device\n": "Unable to connect/login to fencing device",
		"401: Unauthorized\n":                         "401 Unauthorized",

		"failed: 'hunter2' is a wrong password, timeout\n": "failed … is a wrong password …",
		"Authorization: Basic cm9vdDpodW50ZXIy expired\n":  "Authorization … expired",
		"killed while it wrote the pass":                   "killed while it … the",

		"HTTPSConnectionPool(host='a', port=443): Max retries exceeded (timed\n": "… Max retries exceeded timed",
		"Permission denied (publickey,password).\nerror 12345\n":                 "Permission denied … error …",
	} {
		got := scrub(tail{kept: []byte(text)}, agent.Metadata{},
			agent.NewParameters(map[string]string{"password": "hunter2", "api_key": "timeout"}))
		assert.Equal(t, want, got, text)
	}
}

// A short value is a secret if its name says so. Numbers, and what an agent shows anyway, are not.
func TestSecretsOfAnyTypeAreHidden(t *testing.T) {
	for _, kind := range []agent.ParameterType{"", "password", agent.TypeString} {
		assert.ElementsMatch(t, []string{"abc", "12", "hunter2", "31415926", "open-sesame"}, secrets(
			agent.Metadata{Parameters: []agent.ParameterSpec{
				{Name: "password", Type: kind},
				{Name: "login_secret", Type: agent.TypeInteger},
				{Name: "phrase", Type: kind},
				{Name: "timeout", Type: agent.TypeInteger},
				{Name: "delay", Type: agent.TypeSecond},
				{Name: "method", Type: agent.TypeSelect},
				{Name: "ssl", Type: agent.TypeBoolean},
				{Name: "suite", Type: kind},
			}},
			agent.NewParameters(map[string]string{
				"password": "hunter2", "login_secret": "31415926", "phrase": "open-sesame", "timeout": "1000",
				"delay": "1000", "method": "onoff", "ssl": "true", "secret_key": "12", "suite": "3", "passwd": "abc",
				"plug": "worker-1",
			})), kind)
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
