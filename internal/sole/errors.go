package sole

import "errors"

// ErrOccupied is returned by [Occupy] while another process, or another part of this one, has the name.
var ErrOccupied = errors.New("the name is taken")
