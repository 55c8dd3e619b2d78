package shardlease

// SetOccupy replaces what makes a process the only one of its name, for processes that are none.
func (c *Config) SetOccupy(f func(name string) (release func(), err error)) { c.occupy = f }
