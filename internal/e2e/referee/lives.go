package referee

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Lives records the work of Pods. One works until its process ends.
type Lives struct {
	// Begun has the Pod of each process that begins to work.
	Begun chan string

	mu  sync.Mutex
	all []*life // guarded by mu
}

// life is a process that works.
type life struct {
	pod        string
	start, end time.Time // end is zero until it has ended
}

// NewLives returns an empty record.
func NewLives() *Lives { return &Lives{Begun: make(chan string, 10)} }

// Note processes a line of the log of examples/leaderforlife.
func (l *Lives) Note(pod, line string) {
	var entry struct {
		Message string  `json:"msg"`
		Seconds float64 `json:"ts"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "working" {
		return
	}
	l.mu.Lock()
	l.all = append(l.all, &life{pod: pod, start: inSeconds(entry.Seconds)})
	l.mu.Unlock()
	l.Begun <- pod
}

// Ended records that the process of a Pod has ended.
func (l *Lives) Ended(pod string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range l.all {
		if life.pod == pod && life.end.IsZero() {
			life.end = at
		}
	}
}

// Verdict says whether two processes ever worked at the same time, and out of how many. All must have
// ended.
func (l *Lives) Verdict() (overlap string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range l.all {
		for _, b := range l.all[i+1:] {
			if a.end.After(b.start) && b.end.After(a.start) {
				overlap = fmt.Sprintf("%s worked until %s, %s from %s on", a.pod, a.end.Format(clock), b.pod,
					b.start.Format(clock))
			}
		}
	}
	return overlap, len(l.all)
}
