package fencing

import (
	"errors"
	"fmt"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// reading is the result of a check for one device.
type reading struct {
	power agent.Power
	err   error // the reason if it could not be read
	// on means that it reads on and the node is Ready; contradicts, that it reads off although the
	// node has renewed its Lease after that.
	on, contradicts bool
}

var (
	errContradicts = errors.New("reads off while the node works: it feeds another machine or reports a wrong state")
	errNeverOn     = errors.New("reads off, and was not seen on while the node worked: it may feed another machine")
)

// flaw returns why a device could not prove that its machine has no power, or nil if it could.
func (r reading) flaw(known bool) error {
	switch {
	case r.err != nil:
		return r.err
	case r.contradicts:
		return errContradicts
	case r.power != agent.PowerOn && !known:
		return errNeverOn
	}
	return nil
}

// readiness reports whether a node could be fenced now.
type readiness struct {
	problem error // the reason why not; nil if it could
	limited error // the reason why some level of devices cannot
}

// readyBy judges the devices of a plan. One level without flaws is enough, because levels replace
// each other. Devices of the isolation step do not.
func readyBy(plan nodeconfig.Plan, found map[string]reading, known func(*nodeconfig.Device) bool) readiness {
	flaws := func(methods []nodeconfig.Method) (all error) {
		for _, m := range methods {
			if m.Device == nil || !m.MustSucceed {
				continue
			}
			if err := found[m.Device.Key].flaw(known(m.Device)); err != nil {
				all = errors.Join(all, fmt.Errorf("device %s: %w", m.Device.Key, err))
			}
		}
		return all
	}
	var isolation, power error
	for _, level := range plan.Isolation {
		isolation = errors.Join(isolation, flaws(level))
	}
	levels, usable := 0, 0
	for _, level := range plan.PowerManagement {
		if len(level.Off()) == 0 {
			continue
		}
		levels++
		err := flaws(level.Off())
		if err == nil {
			usable++
		}
		power = errors.Join(power, err)
	}
	if levels > 0 && usable == 0 {
		return readiness{problem: errors.Join(isolation, power)}
	}
	return readiness{problem: isolation, limited: power}
}
