//go:build !linux

package process_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

func TestKillTimerIsUnsupported(t *testing.T) {
	_, err := process.NewKillTimer()
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}
