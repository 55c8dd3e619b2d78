package kubectl_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var shared *e2e.ControlPlane

func TestMain(m *testing.M) { e2e.Main(m, &shared, e2e.Options{}) }
