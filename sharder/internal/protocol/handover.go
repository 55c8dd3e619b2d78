package protocol

// DrainState is how far the acknowledgement of a drain has come.
type DrainState int

const (
	// Accepting means that no acknowledgement is in progress.
	Accepting DrainState = iota
	// Closing means that no new work begins. Work in flight may continue, and nothing has been
	// sent.
	Closing
	// AckUncertain means that the root may have been acknowledged, which only a live read shows.
	AckUncertain
	// AckUnseen means that the root was acknowledged at an unknown version, as by client-go's
	// fakes. A cache must show it.
	AckUnseen
)

// Handover is the state of a root at a shard, on which the shard's next step depends.
type Handover struct {
	DrainState DrainState
	Floor      string
	// AtWork means that work is in flight in any controller of this process. Overdue means that the
	// time it had to end is over.
	AtWork, Overdue bool
	// Pending means that a request of work that has ended may still be carried out.
	Pending bool
	// Assignment and Version are those of the newest copy. Without a copy, Assignment is
	// AssignedElsewhere.
	Assignment Assignment
	Version    string
}

// DrainAction is the next step of a shard about a root.
type DrainAction string

// The steps of a shard.
const (
	DoNothing       DrainAction = "stay put"   // wait for a change
	StopAdmission   DrainAction = "shut"       // admit no more work
	ResumeAdmission DrainAction = "reopen"     // the drain was withdrawn, or a cache shows the acknowledgement
	AwaitWork       DrainAction = "await work" // until it has ended and none of its requests can be carried out
	CancelWork      DrainAction = "cut work"   // end the context of work that takes too long
	SendAck         DrainAction = "send"       // acknowledge
	ReadLive        DrainAction = "read"       // find out whether an acknowledgement was carried out
	ReturnObject    DrainAction = "send back"  // remove the label: the sharder does not see the object
)

// NextAction returns the next step. A copy from before the last acknowledgement is ignored. If a
// copy is out of date, the API server refuses what is sent.
func (h Handover) NextAction() DrainAction {
	current := Reaches(h.Version, h.Floor)
	switch h.DrainState {
	case AckUncertain:
		return ReadLive
	case AckUnseen:
		if h.Assignment == AssignedElsewhere {
			return ResumeAdmission
		}
		return DoNothing
	case Closing:
		switch {
		case h.Assignment != AssignedDraining || !current:
			return ResumeAdmission
		case h.AtWork && h.Overdue:
			return CancelWork
		case h.AtWork || h.Pending:
			return AwaitWork
		}
		return SendAck
	}
	switch {
	case !current:
		return DoNothing
	case h.Assignment == AssignedDraining:
		return StopAdmission
	case h.Assignment == AssignedUnrecorded:
		return ReturnObject
	}
	return DoNothing
}
