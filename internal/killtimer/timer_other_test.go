//go:build !linux

package killtimer_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/killtimer"
)

func TestIsUnsupported(t *testing.T) {
	_, err := killtimer.New()
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}
