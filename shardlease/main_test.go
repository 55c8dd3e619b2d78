package shardlease_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(panicEnv); part != "" {
		panicIn(part)
	}
	if os.Getenv(latecomerEnv) != "" {
		claimLate()
	}
	goleak.VerifyTestMain(m)
}
