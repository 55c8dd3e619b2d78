package statemachine

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

var (
	names    = [2]string{"a", "b"}
	known    = map[string]bool{"a": true, "b": true}
	epoch    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	triggers = []v1alpha1.Trigger{{Type: "Ready", Status: "Unknown"}}
	failing  = &triggers[0]
	now      = clock.Reading{Wall: epoch, Monotonic: 24 * time.Hour}
)

func ago(d time.Duration) clock.Reading {
	return clock.Reading{Wall: now.Wall.Add(-d), Monotonic: now.Monotonic - d}
}

// Limits of the plan of the exploration: each wait is as long as the longest that is asked for at
// once.
const (
	polls   = apart
	settles = 30 * time.Second
	timeout = time.Second
)

var (
	sinceStage = [3]time.Duration{0, polls, settles + timeout}
	quietStage = [3]time.Duration{0, polls, settles}
)

// long is a time within a stage: the shortest at which everything has settled and has been read
// after that.
func long(stage uint8, limits [3]time.Duration) time.Duration {
	if stage == 2 {
		return time.Hour
	}
	return limits[stage]
}

func stage(passed time.Duration, limits [3]time.Duration) uint8 {
	switch {
	case passed >= limits[2]:
		return 2
	case passed >= limits[1]:
		return 1
	}
	return 0
}

// input makes a record, a memory and the rest of an input that the state stands for.
func (c *scenario) input(s *State) Input {
	fence := &v1alpha1.NodeFence{Node: "n"}
	if s.Finalizer {
		fence.Finalizers = []string{v1alpha1.Finalizer}
	}
	annotate := func(key, value string) {
		if fence.Annotations == nil {
			fence.Annotations = map[string]string{}
		}
		fence.Annotations[key] = value
	}
	switch s.SeenRequest {
	case reqHold:
		annotate(v1alpha1.AnnotationStop, "hold")
	case reqRestore:
		annotate(v1alpha1.AnnotationStop, "restore")
	case reqConfirm:
		annotate(v1alpha1.AnnotationConfirmOff, strconv.Itoa(int(s.Incident)))
	}
	if s.SeenPause {
		annotate(v1alpha1.AnnotationPaused, "true")
	}
	if s.SeenAgain {
		annotate(v1alpha1.AnnotationRestart, strconv.Itoa(int(s.Incident)))
	}
	status := &fence.Status
	*status = v1alpha1.Status{
		NodeUID: "uid", Incident: int64(s.Incident), Triggers: triggers, Phase: phases[s.Phase],
		Progress: v1alpha1.Progress{
			Abort: aborts[s.Abort], Retries: int32(s.Retries), Restarts: int32(s.Restarts), Level: int32(s.Level),
			Operations: 9, Verified: s.Verified, Released: release[s.Released], DumpReleased: release[s.DumpReleased],
			Taints: v1alpha1.Taints{Fence: s.Fenced},
		},
	}
	if s.Tainted {
		status.Taints.OutOfService = v1alpha1.TaintOurs
	}
	switch s.Wait {
	case 1:
		status.Wait = &v1alpha1.Wait{Kind: waits[status.Phase], Since: metav1.NewMicroTime(now.Wall)}
	case 2:
		status.Wait = &v1alpha1.Wait{Kind: waits[status.Phase], Since: metav1.NewMicroTime(now.Wall.Add(-time.Hour))}
	}
	if s.Manual {
		status.Evidence = []v1alpha1.Evidence{{
			Device: "n", Source: v1alpha1.SourceManual,
			Readings: []v1alpha1.Reading{{Power: agent.PowerOff}},
		}}
	}
	if s.Held {
		status.Hold = &v1alpha1.Hold{Reason: "Policy"}
	}
	if s.SaidPaused {
		status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue}}
	}
	if s.Returned {
		status.Conditions = append(status.Conditions,
			metav1.Condition{Type: v1alpha1.ConditionReturned, Status: metav1.ConditionTrue})
	}
	m := NewMemory(ago(long(s.Since, sinceStage)))
	if m.waits = now; s.Wait == 2 {
		m.waits = ago(time.Hour)
	}
	dump := s.heardAt(&m)
	for i := range c.plugs() {
		p := &s.Plugs[i]
		if p.State != dvNone || p.Touched {
			d := v1alpha1.Device{
				Device: names[i], Level: c.levelOf(i), State: states[p.State], Tries: int32(p.Tries),
				Restores: int32(p.Restores),
				Touched:  p.Touched, SeenOff: p.SeenOff, FoundOff: p.FoundOff,
			}
			if p.State == dvOffIntent || p.State == dvOnIntent {
				d.Op = &v1alpha1.Op{
					ID: names[i], Action: agent.ActionOff, Seq: int32(i),
					DeadlineSeconds: int32(timeout / time.Second),
				}
				if p.State == dvOnIntent {
					d.Op.Action = agent.ActionOn
				}
			}
			status.Devices = append(status.Devices, d)
			status.ConfigHash = "c"
		}
		sight := deviceReading{device: names[i], called: p.Called}
		if p.Called {
			sight.quiet = ago(long(p.Quiet, quietStage))
		}
		var age time.Duration
		switch p.Read {
		case rdOn:
			sight.power = agent.PowerOn
		case rdUnknown:
			sight.power = agent.PowerUnknown
		case rdUnknownOld:
			sight.power, age = agent.PowerUnknown, readAgain
		case rdOff:
			sight.power = agent.PowerOff
		case rdOffOld:
			sight.power, age = agent.PowerOff, apart
		case rdTwice:
			sight.power, sight.twice = agent.PowerOff, true
		case rdTwiceOld:
			sight.power, sight.twice, age = agent.PowerOff, true, 2*time.Second
		}
		sight.at = ago(age)
		sight.began = sight.at
		m.devices = append(m.devices, sight)
	}
	if s.Unsent > 0 {
		m.unsent = names[s.Unsent-1]
	}
	if s.Look != ndNone {
		m.present, m.node, m.looked = true, c.node(s.Look), now
		if s.LookOld {
			m.looked = ago(time.Hour)
		}
	}
	m.sinceChange, m.sinceRead = renewals{s.Called.Based, s.Called.Renewed, "0"}, renewals{
		s.Read.Based, s.Read.Renewed,
		"0",
	}
	m.progress = progress{
		methods: int(s.Methods), tainted: s.Parts&partTainted != 0, deleted: s.Parts&partDeleted != 0,
		detached: s.Parts&partDetached != 0, untainted: s.Parts&partUntainted != 0, freed: now, emptied: now,
	}
	if s.Parts&partFreed != 0 {
		m.progress.freed = ago(watchLag)
	}
	if s.Parts&partSettled != 0 {
		m.progress.emptied = ago(podLag)
	}
	in := Input{Fence: fence, Plan: c.plan(), Known: known, Dump: dump, Memory: m, Now: now}
	if s.Hold {
		in.Policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Policy"}
	}
	if s.Node == ndNotReady && s.Incident < c.incidents {
		in.Trigger = failing
	}
	return in
}

// almostOver is how long ago the last message of a dump was that is about to be over.
const almostOver = dumpOver - dumpWithin

// heardAt is when the last message of a dump came; it makes the memory begin before that, unless it
// was of before the incident.
func (s *State) heardAt(m *Memory) (dump clock.Reading) {
	if m.begun = ago(time.Hour); s.Young {
		m.begun = ago(almostOver)
	}
	switch s.Heard {
	case heardNow:
		dump = now
	case heardLately:
		dump = ago(almostOver)
	}
	if s.Early {
		m.begun = now
	}
	return dump
}

// hears is how old the last message is by now.
func (s *State) hears(age time.Duration) {
	switch {
	case s.Heard == heardNone:
	case age > dumpOver-1:
		s.Heard, s.Early = heardNone, false
	case age > dumpWithin:
		s.Heard = heardLately
	}
}

func (c *scenario) node(look uint8) Node {
	if look == ndGone {
		return Node{Missing: true}
	}
	return Node{UID: "uid", Ready: look == ndReady, Failing: look == ndNotReady, Renewal: "0"}
}

func index[T comparable](all []T, one T) uint8 {
	for i, each := range all {
		if each == one {
			return uint8(i)
		}
	}
	panic("no such value")
}

// record takes over what was written.
func (s *State) record(status *v1alpha1.Status) {
	s.Phase, s.Abort, s.Incident = index(phases, status.Phase), index(aborts, status.Abort), uint8(status.Incident)
	s.Restarts, s.Level, s.Retries = uint8(status.Restarts), uint8(status.Level), uint8(status.Retries)
	switch s.Phase {
	case phPowering, phRestoring: // there it is only told
		s.Retries = 0
	}
	switch {
	case status.Wait == nil:
		s.Wait = 0
	case now.Wall.Sub(status.Wait.Since.Time) > time.Minute:
		s.Wait = 2
	default:
		s.Wait = 1
	}
	s.Released, s.Verified = index(release, status.Released), status.Verified
	s.DumpReleased = index(release, status.DumpReleased)
	s.Tainted, s.Fenced = status.Taints.OutOfService == v1alpha1.TaintOurs, status.Taints.Fence
	s.Held = status.Hold != nil
	s.SaidPaused = meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionPaused)
	s.Returned = meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReturned)
	s.Manual = false
	for _, e := range status.Evidence {
		s.Manual = s.Manual || e.Source == v1alpha1.SourceManual
	}
	for i := range s.Plugs {
		p := &s.Plugs[i]
		p.State, p.Tries, p.Restores, p.Touched, p.SeenOff, p.FoundOff = 0, 0, 0, false, false, false
		if d := device(status, names[i]); d != nil {
			p.State, p.Tries, p.Restores = index(states, d.State), uint8(d.Tries), uint8(d.Restores)
			p.Touched, p.SeenOff, p.FoundOff = d.Touched, d.SeenOff, d.FoundOff
		}
	}
}

// remember takes over the memory at a time.
func (s *State) remember(m *Memory, status *v1alpha1.Status, at clock.Reading) {
	since := s.Since
	s.Since = stage(at.SinceAtLeast(m.since), sinceStage)
	s.Unsent = 0
	for i := range s.Plugs {
		p := &s.Plugs[i]
		if d := device(status, names[i]); d != nil && d.Op != nil && d.Op.ID == m.unsent {
			s.Unsent = uint8(1 + i)
		}
		sight := m.seen(names[i])
		before := p.settled(since)
		if p.Called = sight.called; p.Called {
			p.Quiet = stage(at.SinceAtLeast(sight.quiet), quietStage)
		} else {
			p.Quiet = 0
		}
		if p.settled(s.Since) && !before { // it has to be read once more
			p.Read = rdNone
			continue
		}
		fresh := at.SinceAtLeast(sight.at) == 0
		switch {
		case sight.power == agent.PowerOn && fresh:
			p.Read = rdOn
		case sight.power == agent.PowerUnknown && fresh:
			p.Read = rdUnknown
		case sight.power == agent.PowerUnknown && at.SinceAtLeast(sight.at) >= readAgain:
			p.Read = rdUnknownOld
		case sight.power != agent.PowerOff:
			p.Read = rdNone
		case sight.twice && fresh:
			p.Read = rdTwice
		case sight.twice:
			p.Read = rdTwiceOld
		case fresh:
			p.Read = rdOff
		default:
			p.Read = rdOffOld
		}
	}
	s.LookOld = m.present && at.SinceAtLeast(m.looked) > 0
	switch {
	case !m.present, s.LookOld && s.Phase != phVerifying:
		s.Look, s.LookOld = ndNone, false
	case m.node.Missing:
		s.Look = ndGone
	case m.node.Ready:
		s.Look = ndReady
	default:
		s.Look = ndNotReady
	}
	s.Called.remember(m.sinceChange)
	if s.Read.remember(m.sinceRead); s.Phase != phPowering && s.Phase != phVerifying {
		s.Read = lease{}
	}
	s.Methods, s.Parts = uint8(m.progress.methods), 0
	for i, done := range []bool{
		m.progress.tainted, m.progress.deleted, m.progress.detached, m.progress.untainted,
		m.progress.untainted && at.SinceAtLeast(m.progress.freed) >= watchLag, m.progress.deleted &&
			at.SinceAtLeast(m.progress.emptied) >= podLag,
	} {
		if done {
			s.Parts |= 1 << i
		}
	}
}

func (l *lease) remember(r renewals) {
	if l.Based, l.Renewed = r.based, r.renewed; !r.based {
		l.Maybe = false
	}
}

// forget is the end of the controller's process.
func (s *State) forget() {
	s.Up, s.Stale = false, false
	s.SeenRequest, s.SeenPause, s.SeenAgain = s.Request, s.Pause, s.Restart
	s.Look, s.LookOld, s.Called, s.Read = ndNone, false, lease{}, lease{}
	s.Unsent, s.Calling, s.CallOn, s.Since, s.Methods, s.Parts = 0, 0, false, 0, 0, 0
	s.Heard, s.Early, s.HeardBefore, s.Young = heardNone, false, false, s.DumpReleased != 0
	for i := range s.Plugs {
		p := &s.Plugs[i]
		p.Called, p.Quiet, p.Read, p.ExtNow = false, 0, rdNone, false
	}
}

func (s *State) reload() {
	s.Stale = false
	s.SeenRequest, s.SeenPause, s.SeenAgain = s.Request, s.Pause, s.Restart
}

// says reports whether the condition PoweredOff names a plug.
func says(status *v1alpha1.Status, name string) bool {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPoweredOff)
	return c != nil && c.Status != metav1.ConditionFalse &&
		strings.Contains(strings.ReplaceAll(c.Message, ";", ",")+",", " "+name+",")
}
