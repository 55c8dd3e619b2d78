package leaderelection_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(loserEnv) != "" {
		loseLeadership()
		os.Exit(1) // not reached
	}
	goleak.VerifyTestMain(m)
}
