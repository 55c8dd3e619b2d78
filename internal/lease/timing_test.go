package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimingDefaults(t *testing.T) {
	d := Timing{}.WithDefaults()
	assert.Empty(t, d.Validate())
	assert.Equal(t, Timing{Duration: 15 * time.Second, Margin: 3 * time.Second, MissedRenewals: 3}, d)
	assert.Equal(t, 3*time.Second, d.RenewInterval())
	sent := time.Now()
	assert.Equal(t, sent.Add(12*time.Second), d.Deadline(sent))
	assert.Equal(t, time.Second, Timing{Duration: 5 * time.Second}.WithDefaults().RenewInterval(), "the shortest lease at the default n")
}
