package leaderelection

import "github.com/bellwether-k8s/bellwether/internal/clock"

// Clock is the time of one process. Simulations implement it to give each replica its own time.
// Tests of programs do not need it, because they run in a testing/synctest bubble.
//
// NewTimer and AfterFunc return a Timer of k8s.io/utils/clock, which counts as Monotonic does. An
// elector holds no lock while it calls Now.
type Clock = clock.Clock

// ClockReading is what Now of a [Clock] returns. The greatest elapsed time of the three clocks
// bounds how long a leader may act.
type ClockReading = clock.Reading
