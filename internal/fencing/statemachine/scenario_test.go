package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// scenario is a machine, and how much may go wrong.
type scenario struct {
	name                                string
	feeds                               feeds
	crash, fault, flap, admin, external uint8
	dumps                               uint8
	retries, restarts, incidents        uint8
	gone, stop, pause, confirm, cordon  bool
	naive                               *naive
	p                                   *nodeplan.Plan
}

// feeds is how the machine gets its power.
type feeds int

const (
	oneFeed  feeds = iota
	twoFeeds       // on as long as one of them is
	fallback       // a BMC, and a PDU behind it: on as long as both are
	wrong          // the plug is another machine's
)

func (c *scenario) plugs() int {
	if c.feeds == twoFeeds || c.feeds == fallback {
		return 2
	}
	return 1
}

func (c *scenario) levelOf(plug int) int32 {
	if c.feeds == fallback {
		return int32(1 + plug)
	}
	return 1
}

func (c *scenario) powered(s *State) bool {
	switch c.feeds {
	case twoFeeds:
		return s.Plugs[0].On || s.Plugs[1].On
	case fallback:
		return s.Plugs[0].On && s.Plugs[1].On
	case wrong:
		return true
	}
	return s.Plugs[0].On
}

func (c *scenario) plan() nodeplan.Plan {
	if c.p != nil {
		return *c.p
	}
	d := func(i int) nodeplan.Method {
		return nodeplan.Method{Action: agent.ActionOff, MustSucceed: true, Device: &nodeplan.Device{
			Key: names[i], Settle: settles, Timeout: timeout, Poll: polls, OffIsProof: true,
		}}
	}
	p := nodeplan.Plan{
		Hash: "c", PowerOn: nodeplan.Always, History: 24 * time.Hour, NotReadyFor: lookEvery, PowerWait: readAhead,
		BootGrace: lookEvery, RestartDelay: lookEvery,
		DetachTimeout: lookEvery,
		Retries:       int32(c.retries), Restarts: int32(c.restarts), Kdump: c.dumps > 0, KdumpTimeout: 48 * time.Hour,
	}
	switch {
	case c.feeds == fallback:
		p.PowerManagement = []nodeplan.Level{{d(0)}, {d(1)}}
	case c.feeds == twoFeeds && !c.naive.OneFeedRelease:
		p.PowerManagement = []nodeplan.Level{{d(0), d(1)}}
	default:
		p.PowerManagement = []nodeplan.Level{{d(0)}}
	}
	c.p = &p
	return p
}

func (c *scenario) initial() State {
	s := State{
		Up: true, Node: ndNotReady, Crashes: c.crash, Faults: c.fault, Flaps: c.flap, Admins: c.admin,
		Externals: c.external, Dumps: c.dumps,
	}
	for i := range c.plugs() {
		s.Plugs[i].On = true
	}
	return s
}

// naive is a design with one safeguard less; the zero value has them all.
type naive struct {
	NoWriteAhead, ResendBlindly, NoSettle, TrustExitCode, OnBeforeRelease, NoLook, AcknowledgeAtOnce bool
	RestartForgets, OwnCordon, OneFeedRelease, GiveUpSilently, TaintLate, NoBootGrace, AnyReady      bool
	NoReleaseRead, RestoreLevelOnly, GoneBlind, StopKeepsTaint, SettleTooShort                       bool
	LandedAsRead, UnseenIsOn, TaintFirst, TaintAtOnce                                                bool
	DumpForGood, DumpOfBefore, DumpReady, DumpCutOff, DumpUnsaid                                     bool
}

func scenarios() []scenario {
	return []scenario{
		{name: "one device, crashes and faults", crash: 5, fault: 4, flap: 3, retries: 3, restarts: 1, incidents: 1},
		{name: "dead node, crashes only", crash: 6, retries: 8, restarts: 1, incidents: 1},
		{name: "dead node, two feeds, crashes only", feeds: twoFeeds, crash: 4, retries: 8, restarts: 1, incidents: 1},
		{name: "one device, flapping node", crash: 1, fault: 2, flap: 4, retries: 2, restarts: 1, incidents: 2},
		{
			name: "one device, admin stops, pauses, cordons, deletes the node", crash: 1, fault: 2, flap: 2, admin: 2,
			retries: 2, restarts: 1, incidents: 2, stop: true, pause: true, cordon: true, gone: true,
		},
		{
			name: "one device, admin confirms", crash: 1, fault: 3, flap: 2, admin: 2, retries: 1, restarts: 1,
			incidents: 2, confirm: true, stop: true,
		},
		{
			name: "one device, somebody else powers on", crash: 1, fault: 1, flap: 2, external: 1, retries: 2,
			restarts:  1,
			incidents: 1,
		},
		{name: "two feeds", feeds: twoFeeds, crash: 3, fault: 3, flap: 3, retries: 2, restarts: 1, incidents: 1},
		{
			name: "two feeds, admin", feeds: twoFeeds, crash: 1, fault: 1, flap: 2, admin: 2, retries: 2, restarts: 1,
			incidents: 1, stop: true, gone: true, pause: true,
		},
		{
			name: "two feeds, somebody else powers on", feeds: twoFeeds, crash: 1, fault: 1, flap: 1, external: 1,
			retries: 2, incidents: 1,
		},
		{name: "a dump, the node returns", crash: 1, fault: 1, flap: 2, dumps: 2, retries: 1, incidents: 2},
		{
			name: "a dump, admin", crash: 1, flap: 1, admin: 2, dumps: 1, retries: 1, incidents: 1, stop: true,
			pause: true,
		},
		{name: "fallback", feeds: fallback, crash: 3, fault: 3, flap: 3, retries: 2, restarts: 1, incidents: 1},
		{
			name: "fallback, admin", feeds: fallback, crash: 1, fault: 2, flap: 1, admin: 2, retries: 2, incidents: 2,
			stop: true, gone: true,
		},
	}
}

// budget is how often things may go wrong.
type budget struct{ crash, fault, flap, admin uint8 }

// within returns the scenario with its budgets cut.
func (c scenario) within(b budget) scenario {
	c.crash, c.fault, c.flap, c.admin = min(c.crash, b.crash), min(c.fault, b.fault), min(c.flap, b.flap), min(c.admin,
		b.admin)
	return c
}
