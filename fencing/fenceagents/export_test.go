package fenceagents

import "time"

// SetPatience sets how long what was killed may take to be gone. It must be set before the first call.
func (a *Agents) SetPatience(d time.Duration) { a.patience = d }

// ProvingOff are the programs whose off is proof.
var ProvingOff = provingOff
