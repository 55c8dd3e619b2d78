package storm_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

func TestMain(m *testing.M) {
	lab.Main()
	goleak.VerifyTestMain(m)
}
