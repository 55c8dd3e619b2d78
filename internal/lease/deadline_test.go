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
	assert.Equal(t, 9*time.Second, d.Left(reading(0), reading(3*time.Second)))
	suspended := reading(3 * time.Second)
	suspended.Suspended = time.Minute
	assert.Equal(t, -51*time.Second, d.Left(reading(0), suspended), "time that may have passed counts")
	assert.Equal(t, time.Second, Timing{Duration: 5 * time.Second}.WithDefaults().RenewInterval(),
		"the shortest lease at the default n")
}
