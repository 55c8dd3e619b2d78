package shardlease

// Occupy is what makes a process the only one of its name.
var Occupy = occupy

// SetOccupy replaces it, for processes that are none.
func (l *Lease) SetOccupy(f func(name string) (release func(), err error)) { l.occupy = f }
