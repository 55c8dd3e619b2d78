//go:build !linux

package realnode_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

func TestNodesTakeLinux(t *testing.T) { t.Skip(realnode.Missing()) }
