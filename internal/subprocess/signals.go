package subprocess

import (
	"os"
	"os/signal"
	"syscall"
)

// DefaultSignals lets the processes that this one starts react to every signal, although this one was
// started with some ignored: SIGHUP by nohup, SIGINT in the background of a script. This process still does
// nothing when it gets one of those.
func DefaultSignals() {
	for n := syscall.Signal(1); n <= 64; n++ {
		if signal.Ignored(n) {
			signal.Notify(make(chan os.Signal, 1), n) // a signal that is caught here is not ignored in children
		}
	}
}
