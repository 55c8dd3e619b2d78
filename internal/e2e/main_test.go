package e2e_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

const (
	// patience is how long a test waits for what takes a moment on an idle machine.
	patience = 30 * time.Second
	poll     = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(orphanerEnv); ok {
		orphaner(how)
	}
	subprocess.DefaultSignals() // an orphaner gets some
	goleak.VerifyTestMain(m)
}
