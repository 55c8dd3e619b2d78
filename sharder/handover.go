package sharder

// phase is how far the acknowledgement of a drain has come.
type phase int

const (
	// open roots are not being acknowledged.
	open phase = iota
	// closing roots are not worked on any more, as soon as what is in flight has ended. Nothing has been sent.
	closing
	// unsure roots may have been acknowledged. Only a live read can tell.
	unsure
	// hidden roots were acknowledged, at no version that is known: client-go's fakes have none. A cache has to show it.
	hidden
)

// handover is what is known of a root, from which it follows what has to be done so that it can be another shard's.
type handover struct {
	phase phase
	floor string
	// atWork says that work is in flight, in any controller of this process, and overdue that it was given its time to end.
	atWork, overdue bool
	// pending says that a request of work that has ended may still be carried out.
	pending bool
	// standing and version of the newest copy; elsewhere if there is none.
	standing standing
	version  string
}

// chore is what has to be done.
type chore string

const (
	stayPut   chore = "stay put"   // nothing, until something changes
	shut      chore = "shut"       // let no more work begin
	reopen    chore = "reopen"     // it is not wanted any more
	awaitWork chore = "await work" // until it has ended, and its requests cannot be carried out any more
	cutWork   chore = "cut work"   // tell work to end that takes too long
	sendAck   chore = "send"       // tell the sharder
	readLive  chore = "read"       // only that tells what has become of an acknowledgement
	settled   chore = "settled"    // a cache has shown what was sent
	sendBack  chore = "send back"  // to the sharder, who cannot see it
)

// next decides. A copy from before the last acknowledgement decides nothing. Whether a copy is the present version need not be known:
// if it is not, the API server refuses what is sent.
func (h handover) next() chore {
	current := reaches(h.version, h.floor)
	switch h.phase {
	case unsure:
		return readLive
	case hidden:
		if h.standing == elsewhere {
			return settled
		}
		return stayPut
	case closing:
		switch {
		case h.standing != drained || !current:
			return reopen
		case h.atWork && h.overdue:
			return cutWork
		case h.atWork || h.pending:
			return awaitWork
		}
		return sendAck
	}
	switch {
	case !current:
		return stayPut
	case h.standing == drained:
		return shut
	case h.standing == stray:
		return sendBack
	}
	return stayPut
}
