package statemachine

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// MaxDevices is the maximum number of devices that a plan switches off. A device leaves at most two
// entries of evidence, off and on. With those of an admin and of a dump they stay below the 64 of a
// record.
const MaxDevices = 30

// Validate reports everything about a plan that a fence cannot carry out.
func Validate(p nodeplan.Plan) error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("statemachine: "+format, args...)) }
	seen := map[string]bool{}
	devices := switchedOff(p)
	for _, d := range devices {
		if seen[d.Key] {
			bad("Device: must be in one place of a plan (got %q twice)", d.Key)
		}
		seen[d.Key] = true
	}
	if len(devices) > MaxDevices {
		bad("Devices: must be at most %d (got %d)", MaxDevices, len(devices))
	}
	return errors.Join(wrong...)
}

// switchedOff returns the devices that a plan switches off. What recovery switches on was switched
// off by isolation.
func switchedOff(p nodeplan.Plan) []*nodeplan.Device {
	all := devicesOf(p.Isolation)
	for _, level := range p.PowerManagement {
		all = append(all, devicesOf(level)...)
	}
	return all
}

// devicesOf returns the devices that a level switches off.
func devicesOf(level nodeplan.Level) (devices []*nodeplan.Device) {
	for _, m := range level.Off() {
		devices = append(devices, m.Device)
	}
	return devices
}

func keysOf(devices []*nodeplan.Device) (keys []string) {
	for _, d := range devices {
		keys = append(keys, d.Key)
	}
	return keys
}

// device finds a device that the plan switches off. Of another device, the times are those that it
// has by default.
func (t transition) device(key string) (d *nodeplan.Device, ok bool) {
	for _, d := range switchedOff(t.Plan) {
		if d.Key == key {
			return d, true
		}
	}
	return &nodeplan.Device{Key: key, Settle: 30 * time.Second, Timeout: 30 * time.Second}, false
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
