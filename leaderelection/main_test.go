package leaderelection_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestMain(m *testing.M) {
	if os.Getenv(loserEnv) != "" {
		leaderelection.ReexecIfPID1()
		loseLeadership()
		os.Exit(1) // not reached
	}
	goleak.VerifyTestMain(m)
}
