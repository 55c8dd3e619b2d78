package process_test

import (
	"maps"
	"runtime"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

func TestMain(m *testing.M) {
	programs := maps.Clone(killTimerPrograms)
	maps.Copy(programs, pid1Programs)
	subprocess.Main(m, programs)
}

// init keeps the main goroutine on the main thread, which does not end when its goroutine does.
func init() { runtime.LockOSThread() }

func must(err error) {
	if err != nil {
		panic(err)
	}
}
