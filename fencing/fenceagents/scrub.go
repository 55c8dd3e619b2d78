package fenceagents

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// maxComplaint is the maximum length of an agent's complaint in an error, in bytes.
const maxComplaint = 1024

// Parameters whose values may be shown, by their normal names. Any other text might be a secret:
// agents call theirs by many names.
var harmless = []string{
	"ip", "ipaddr", "plug", "port", "username", "login", "cipher", "region", "zone", "project", "resourcegroup",
	"command_prompt",
	"cmd_prompt", "redfish_uri", "systems_uri", "api_path", "separator", "plug_separator", "switch", "namespace",
}

// plainTypes are types whose values are no secrets, unless the name of their parameter says
// otherwise. Any other type, or none, may be that of a password.
var plainTypes = []agent.ParameterType{
	agent.TypeBoolean, agent.TypeInteger, agent.TypeSecond, agent.TypeSelect,
}

// short values are numbers and abbreviations, unless the name of their parameter says otherwise.
// Hiding them would leave little to read.
const short = 4

func secretive(name string) bool {
	return slices.ContainsFunc(
		[]string{"pass", "pwd", "secret", "token", "key", "community", "_kg"},
		func(part string) bool {
			return strings.Contains(normal(name), part)
		},
	)
}

// scrub returns the end of an agent's standard error without any value that might be a secret, in
// any encoding that libraries use. The reason is usually at the end.
func scrub(written tail, metadata agent.Metadata, parameters agent.Parameters) string {
	return shorten(tidy(hide(string(written.kept), written.dropped, guises(metadata, parameters))))
}

var (
	// pythonWarning is a warning of Python about the libraries of an agent. The next line, with the
	// code, is indented.
	pythonWarning = regexp.MustCompile(`^\S+:\d+: \w*Warning: `)
	// logged is a line of an agent's log: the same twice, once with the time.
	logged = regexp.MustCompile(
		`^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ )?(DEBUG|INFO|WARNING|ERROR|CRITICAL):\s*(?:root:)?\s*(.*)$`,
	)
)

// tidy removes warnings and times from the output of an agent. Otherwise the same reason would have
// another text at each reading. If nothing else is left, the output stays.
func tidy(text string) string {
	var kept []string
	warned := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		indented := strings.HasPrefix(line, "  ")
		if warned = pythonWarning.MatchString(line) || warned && indented; warned {
			continue
		}
		if parts := logged.FindStringSubmatch(line); parts != nil {
			if parts[1] != "ERROR" && parts[1] != "CRITICAL" {
				continue
			}
			line = parts[2]
		}
		line = strings.TrimSpace(line)
		if line != "" && line != "Please use '-h' for usage" && !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return text
	}
	return strings.Join(kept, "\n")
}

// guises returns the values that might be secrets, also as libraries encode them.
func guises(metadata agent.Metadata, parameters agent.Parameters) []string {
	var guises []string
	for _, name := range parameters.Names() {
		value, _ := parameters.Get(name)
		parameter, found := find(metadata, name)
		plain := found && slices.Contains(plainTypes, parameter.Type) || len(value) < short
		if value == "" || slices.Contains(harmless, normal(name)) || plain && !secretive(name) {
			continue
		}
		guises = append(
			guises,
			value,
			strings.TrimSpace(value),
			url.QueryEscape(value),
			url.PathEscape(value),
			strings.ReplaceAll(value, `\`, `\\`),
			strings.ReplaceAll(
				value,
				`'`,
				`'"'"'`,
			),
			strings.ReplaceAll(value, `'`, `'\''`),
			strings.ReplaceAll(value, `'`, `\'`),
			base64.StdEncoding.EncodeToString([]byte(value)),
		)
		if encoded, err := json.Marshal(value); err == nil {
			guises = append(guises, string(encoded[1:len(encoded)-1]))
		}
		for _, login := range []string{"username", "login"} {
			if user, found := parameters.Get(login); found {
				// as in the header of a request
				guises = append(guises, base64.StdEncoding.EncodeToString([]byte(user+":"+value)))
			}
		}
	}
	guises = slices.DeleteFunc(guises, func(guise string) bool { return guise == "" })
	slices.Sort(guises)
	return slices.Compact(guises)
}

// hide replaces all parts of secrets in text, also where secrets overlap, where the text ends
// within one because the agent was killed, or begins within one because the text was cut.
func hide(text string, cut bool, secrets []string) string {
	begins := make([]int, len(text)+1) // secrets that begin at a position, minus those that end there
	mark := func(from, to int) {
		begins[from]++
		begins[to]--
	}
	for _, secret := range secrets {
		for from := 0; ; from++ {
			at := strings.Index(text[from:], secret)
			if at < 0 {
				break
			}
			from += at
			mark(from, from+len(secret))
		}
		for part := min(len(secret)-1, len(text)); part > 0; part-- {
			if strings.HasSuffix(text, secret[:part]) {
				mark(len(text)-part, len(text))
				break
			}
		}
		for part := min(len(secret)-1, len(text)); cut && part > 0; part-- {
			if strings.HasPrefix(text, secret[len(secret)-part:]) {
				mark(0, part)
				break
			}
		}
	}
	var shown strings.Builder
	for i, within := 0, 0; i < len(text); i++ {
		if within == 0 && begins[i] > 0 {
			shown.WriteString("[hidden]")
		}
		if within += begins[i]; within == 0 {
			shown.WriteByte(text[i])
		}
	}
	return shown.String()
}

// shorten returns the end of a text as one printable line.
func shorten(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxComplaint {
		text = "… " + strings.ToValidUTF8(text[len(text)-maxComplaint:], "")
	}
	return text
}
