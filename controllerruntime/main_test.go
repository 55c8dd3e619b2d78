package controllerruntime_test

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil // their back-off would take absurd virtual times
	log.SetLogger(log.Log.WithSink(log.NullLogSink{}))
	goleak.VerifyTestMain(m)
}
