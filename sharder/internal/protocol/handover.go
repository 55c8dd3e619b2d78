package protocol

// phase is how far the acknowledgement of a drain has come.
type DrainState int

const (
	// open roots are not being acknowledged.
	Accepting DrainState = iota
	// closing roots are not worked on any more, as soon as what is in flight has ended. Nothing has been sent.
	Closing
	// unsure roots may have been acknowledged. Only a live read can tell.
	AckUncertain
	// hidden roots were acknowledged, at no version that is known: client-go's fakes have none. A cache has to show it.
	AckUnseen
)

// handover is what is known of a root, from which it follows what has to be done so that it can be another shard's.
type Handover struct {
	DrainState DrainState
	Floor      string
	// atWork says that work is in flight, in any controller of this process, and overdue that it was given its time to end.
	AtWork, Overdue bool
	// pending says that a request of work that has ended may still be carried out.
	Pending bool
	// standing and version of the newest copy; elsewhere if there is none.
	Assignment Assignment
	Version    string
}

// chore is what has to be done.
type drainAction string

const (
	DoNothing       drainAction = "stay put"   // nothing, until something changes
	StopAdmission   drainAction = "shut"       // let no more work begin
	ResumeAdmission drainAction = "reopen"     // it is not wanted any more
	AwaitWork       drainAction = "await work" // until it has ended, and its requests cannot be carried out any more
	CancelWork      drainAction = "cut work"   // tell work to end that takes too long
	SendAck         drainAction = "send"       // tell the sharder
	ReadLive        drainAction = "read"       // only that tells what has become of an acknowledgement
	AckSeen         drainAction = "settled"    // a cache has shown what was sent
	ReturnObject    drainAction = "send back"  // to the sharder, who cannot see it
)

// next decides. A copy from before the last acknowledgement decides nothing. Whether a copy is the present version need not be known:
// if it is not, the API server refuses what is sent.
func (h Handover) NextAction() drainAction {
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
