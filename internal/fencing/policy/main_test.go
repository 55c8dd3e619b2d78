package policy_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain has properties be tried more often than by default: it takes a second.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "500"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
