package fenceagents

import (
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

// plainTypes are types whose values are no secrets, unless the name of their parameter suggests
// one. Any other type, or a missing one, may be that of a password.
var plainTypes = []agent.ParameterType{
	agent.TypeBoolean, agent.TypeInteger, agent.TypeSecond, agent.TypeSelect,
}

// short is the length up to which values are numbers and abbreviations, unless the name of their
// parameter suggests a secret.
const short = 4

func secretive(name string) bool {
	return slices.ContainsFunc(
		[]string{"pass", "pwd", "secret", "token", "key", "community", "_kg"},
		func(part string) bool {
			return strings.Contains(normal(name), part)
		},
	)
}

// scrub returns the end of an agent's standard error, where the reason usually is. If the agent has
// something that might be a secret, only words that agents complain with are left, because
// libraries encode a secret in more ways than can be listed.
func scrub(written tail, metadata agent.Metadata, parameters agent.Parameters) string {
	text := string(written.kept)
	secrets := secrets(metadata, parameters)
	if len(secrets) == 0 {
		return shorten(tidy(text))
	}
	// What was cut, by us or by the end of a program that was killed, may look like a word.
	if written.dropped {
		text = text[strings.IndexAny(text+" ", " \n"):]
	}
	if !strings.HasSuffix(text, "\n") {
		text = text[:strings.LastIndexAny(" "+text, " \n")]
	}
	return shorten(plain(tidy(text), secrets))
}

// plain returns the words of a text that are in the vocabulary, and numbers of up to three digits, unless they
// are a word of a secret. An ellipsis stands for others.
func plain(text string, secrets []string) string {
	known, secret := strings.Fields(vocabulary), wordsOf(strings.Join(secrets, " "))
	var said []string
	for _, word := range wordsOf(text) {
		lower := strings.ToLower(word)
		_, isKnown := slices.BinarySearch(known, lower)
		isNumber := len(word) <= 3 && strings.Trim(word, "0123456789") == ""
		isSecret := slices.ContainsFunc(secret, func(s string) bool { return strings.EqualFold(s, word) })
		if !isKnown && !isNumber || isSecret {
			word = "…"
		}
		if word != "…" || len(said) == 0 || said[len(said)-1] != word {
			said = append(said, word)
		}
	}
	return strings.Join(said, " ")
}

// wordsOf returns the words of a text without the punctuation around them.
func wordsOf(text string) []string {
	var words []string
	around := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	for _, word := range strings.Fields(text) {
		if word = strings.TrimFunc(word, around); word != "" {
			words = append(words, word)
		}
	}
	return words
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

// secrets returns the values that might be secrets.
func secrets(metadata agent.Metadata, parameters agent.Parameters) []string {
	var secrets []string
	for _, name := range parameters.Names() {
		value, _ := parameters.Get(name)
		parameter, found := find(metadata, name)
		plain := found && slices.Contains(plainTypes, parameter.Type) || len(value) < short
		if value == "" || slices.Contains(harmless, normal(name)) || plain && !secretive(name) {
			continue
		}
		secrets = append(secrets, value)
	}
	return secrets
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
