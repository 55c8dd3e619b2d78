package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// incarnation is a name that at most one process of a Pod has at a time. Once another process has
// the name, a process that wrote it into an entry while having it has ended or withdrawn.
type incarnation struct {
	name    string                                        // as configured; may be empty
	socket  string                                        // what is locked
	lock    func(name string) (release func(), err error) // see [process.Lock]
	release func()                                        // nil unless this process has the name
	refusal string                                        // last logged error
}

func newIncarnation(config Config) incarnation {
	return incarnation{
		name:   config.PodUID,
		socket: fmt.Sprintf("endpoints/%v/%s", config.service(), config.PodUID),
		lock:   process.Lock,
	}
}

func incarnationProblems(name string) []string {
	var problems []string
	if len(name) > validation.DNS1123SubdomainMaxLength {
		problems = append(problems, validation.MaxLenError(validation.DNS1123SubdomainMaxLength))
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		problems = append(problems, "must be valid UTF-8 without control characters")
	}
	return problems
}

// claim takes the name if it is free.
func (i *incarnation) claim(log *zap.Logger) {
	if i.name == "" || i.release != nil {
		return
	}
	release, err := i.lock(i.socket)
	if err == nil {
		i.release, i.refusal = release, ""
	} else if i.refusal != err.Error() {
		i.refusal = err.Error()
		log.Info("entries of an earlier process of this Pod stay until they expire", zap.Error(err))
	}
}

// yield releases the name.
func (i *incarnation) yield() {
	if i.release != nil {
		i.release()
		i.release = nil
	}
}

// proved returns the name while this process has it, otherwise "".
func (i *incarnation) proved() string {
	if i.release == nil {
		return ""
	}
	return i.name
}

// predecessors returns the keys of entries that earlier processes wrote while they had the name
// that this process has now, sorted, without this instance's own keys.
func (i *incarnation) predecessors(entries map[string]entry, own []string) []string {
	var keys []string
	if name := i.proved(); name != "" {
		for key, e := range entries {
			if e.incarnation == name && e.problem == nil && !slices.Contains(own, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
