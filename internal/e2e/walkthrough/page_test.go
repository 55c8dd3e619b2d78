package walkthrough

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSteps(t *testing.T) {
	all := steps("Text.\n\n```\nmake this\n```\n\n```\n$ kubectl get a\nNAME\nx\n\n$ kubectl get b\n```\n" +
		"$ no command\n")
	assert.Equal(t, []step{{"kubectl get a", []string{"NAME", "x", ""}}, {"kubectl get b", nil}}, all)
}

func TestOutputsAreCompared(t *testing.T) {
	for name, c := range map[string]struct {
		shown, printed string
		agree          bool
	}{
		"columns, names and ages": {
			"NAME  AGE\nexample-operator-7c9d8f6b5-abcde   4   5m1s",
			"NAME    AGE\nexample-operator-66f9c7-zzzzz 0 1s\n", true,
		},
		"a leader":             {"f Held fencer-7c9d8f6b5-abcde_3f9c…", "f Held fencer-66f9c7-zzzzz_0001…", true},
		"a line is missing":    {"a\nb", "a\n", false},
		"a line is more":       {"a", "a\nb\n", false},
		"another state":        {"w1 Ready", "w1 Expired", false},
		"another number":       {"READY 3/3", "READY 2/3", false},
		"nothing where a line": {"a", "", false},
	} {
		assert.Equal(t, c.agree, step{shown: []string{c.shown}}.agrees(c.printed), name)
	}
}
