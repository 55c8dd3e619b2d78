package lab_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// leaky is an agent that complains with its password, in the way that its plug names.
const leaky = `#!/usr/bin/python3
import base64, html, json, shlex, sys, urllib.parse, xml.sax.saxutils
given = dict(line.rstrip("\n").split("=", 1) for line in sys.stdin)
if given["action"] == "metadata":
    print("""<?xml version="1.0" ?><resource-agent name="fence_leaky"><parameters>
<parameter name="plug" required="1"><content type="string"/></parameter>
<parameter name="password"><content type="string"/></parameter></parameters>
<actions><action name="on"/><action name="off"/><action name="status"/></actions></resource-agent>""")
    sys.exit(0)
p = given["password"].strip('"')
latin = p.encode("latin-1", "replace")
ways = {
    "as it is": p, "json": json.dumps(p), "json in json": json.dumps(json.dumps(p)), "repr": repr(p), "ascii": ascii(p),
    "bytes": repr(p.encode()), "bytes of latin 1": repr(latin), "html": html.escape(p),
    "xml": xml.sax.saxutils.quoteattr(p),
    "references": p.encode("ascii", "xmlcharrefreplace").decode(), "escapes": p.encode("unicode_escape").decode(),
    "quoted": urllib.parse.quote(p), "quoted in lower case": urllib.parse.quote(p).lower(),
    "quoted with its slashes": urllib.parse.quote(p, safe=""), "form": urllib.parse.urlencode({"password": p}),
    "requests": urllib.parse.quote(urllib.parse.quote(p, safe="!#$&'()*+,/:;=?@[]~"), safe="!#$%&'()*+,/:;=?@[]~"),
    "shell": shlex.quote(p), "base 64": base64.b64encode(p.encode()).decode(),
    "url-safe base 64": base64.urlsafe_b64encode(p.encode()).decode(),
    "header": "Basic " + base64.b64encode(b"root:" + p.encode()).decode(),
    "header in latin 1": "Basic " + base64.b64encode(b"root:" + latin).decode(),
    "hexadecimal": p.encode().hex(), "backwards": p[::-1],
}
if given["plug"] == "?":
    print("\n".join(ways), file=sys.stderr)
    json.dump(list(ways), open(sys.argv[0] + ".ways", "w"))
else:
    said = ways[given["plug"]]
    print("login failed for " + said + " or (" + said + ")", file=sys.stderr)
    open(sys.argv[0] + ".said", "w").write(said)
sys.exit(1)
`

// Python's own encoders, with random passwords: no message has what an agent has said of its password.
func TestSecretsInTheEncodingsOfPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "fence_leaky")
	require.NoError(t, os.WriteFile(program, []byte(leaky), 0o700))
	agents := newAgentsIn(t, dir, "fence_leaky")
	complaint := func(plug, password string) string {
		_, err := agents.Power(t.Context(), agent.Target{
			Node: "n", Device: "fence_leaky//x", Agent: "fence_leaky",
			Parameters: agent.NewParameters(map[string]string{"plug": plug, "password": password}),
		})
		require.Error(t, err)
		return err.Error()
	}
	complaint("?", "hunter2")
	var ways []string
	text, err := os.ReadFile(program + ".ways")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &ways))
	require.Greater(t, len(ways), 20)
	alphabet := []rune(`abcXYZ019äöüßéñ€漢 <>&'"\/%+=:;@!#$()[]{}~^|?*.,-_`)
	for range 3 {
		var password strings.Builder
		for range 8 + rand.IntN(12) {
			password.WriteRune(alphabet[rand.IntN(len(alphabet))])
		}
		secret := "x" + password.String() + "x" // no space at its ends
		for _, way := range ways {
			got := complaint(way, secret)
			said, err := os.ReadFile(program + ".said")
			require.NoError(t, err)
			assert.Contains(t, got, "login failed for … or …", way)
			assert.NotContains(t, got, strings.TrimSpace(string(said)), "%s of %q", way, secret)
		}
	}
}
