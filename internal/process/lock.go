package process

import "errors"

// ErrLocked is returned by [Lock] while another process, or another part of this process, holds the
// name.
var ErrLocked = errors.New("the name is taken")
