package leaderelection_test

import (
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestMain(m *testing.M) {
	if os.Getenv(loserEnv) != "" {
		leaderelection.ReexecIfPID1()
		loseLeadership()
		os.Exit(1) // not reached
	}
	klog.LogToStderr(false) // what reflectors log of faults that a simulation makes
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil // they sleep, and log
	goleak.VerifyTestMain(m)
}
