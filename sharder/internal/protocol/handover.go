package protocol

// DrainState is how far the acknowledgement of a drain has come.
type DrainState int

const (
	// Accepting roots are not being acknowledged.
	Accepting DrainState = iota
	// Closing roots are not worked on any more, as soon as what is in flight has ended. Nothing has been sent.
	Closing
	// AckUncertain roots may have been acknowledged. Only a live read can tell.
	AckUncertain
	// AckUnseen roots were acknowledged, at no version that is known: client-go's fakes have none. A cache has to show it.
	AckUnseen
)

// Handover is what is known of a root, from which it follows what has to be done so that it can be another shard's.
type Handover struct {
	DrainState DrainState
	Floor      string
	// AtWork says that work is in flight, in any controller of this process, and overdue that it was given its time to end.
	AtWork, Overdue bool
	// Pending says that a request of work that has ended may still be carried out.
	Pending bool
	// Assignment and version of the newest copy; elsewhere if there is none.
	Assignment Assignment
	Version    string
}

// DrainAction is what has to be done.
type DrainAction string

// What a shard can do next about a root.
const (
	DoNothing       DrainAction = "stay put"   // nothing, until something changes
	StopAdmission   DrainAction = "shut"       // let no more work begin
	ResumeAdmission DrainAction = "reopen"     // it is not wanted any more
	AwaitWork       DrainAction = "await work" // until it has ended, and its requests cannot be carried out any more
	CancelWork      DrainAction = "cut work"   // tell work to end that takes too long
	SendAck         DrainAction = "send"       // tell the sharder
	ReadLive        DrainAction = "read"       // only that tells what has become of an acknowledgement
	AckSeen         DrainAction = "settled"    // a cache has shown what was sent
	ReturnObject    DrainAction = "send back"  // to the sharder, who cannot see it
)

// NextAction decides. A copy from before the last acknowledgement decides nothing. Whether a copy is the present version need not be known:
// if it is not, the API server refuses what is sent.
func (h Handover) NextAction() DrainAction {
	current := Reaches(h.Version, h.Floor)
	switch h.DrainState {
	case AckUncertain:
		return ReadLive
	case AckUnseen:
		if h.Assignment == AssignedElsewhere {
			return AckSeen
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
