package kube

import (
	"regexp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

const (
	// failuresRepeat is how often a failure that lasts is logged again.
	failuresRepeat = 10 * time.Minute
	// maxReasons bounds how many reasons of one failure are logged in that time.
	maxReasons = 5
)

// Failures logs what fails and is retried: the first failure, each further reason once, all of it again
// every ten minutes with how long it has lasted, and the end. So the last ten minutes of a log show
// what fails now, and the log does not grow with the retries. The methods may be called concurrently.
type Failures struct {
	log   *zap.Logger
	clock clock.Clock

	mu   sync.Mutex
	open map[string]*failure // guarded by mu: by subject
}

// failure is a streak of failures of one subject.
type failure struct {
	first, last clock.Reading
	logged      clock.Reading // when reasons was last emptied
	reasons     []string      // that were logged since then
}

// NewFailures returns a Failures without a failure.
func NewFailures(log *zap.Logger, c clock.Clock) *Failures {
	return &Failures{log: log, clock: c, open: map[string]*failure{}}
}

// Note logs how an attempt at a subject has ended, if that is news: a failure as a warning with the
// message failed, and the end of the failures with the message again unless that is empty.
func (f *Failures) Note(subject string, err error, failed, again string, fields ...zap.Field) {
	f.NoteAt(zap.WarnLevel, subject, err, failed, again, fields...)
}

// NoteAt is Note with another level for failures.
func (f *Failures) NoteAt(level zapcore.Level, subject string, err error, failed, again string, fields ...zap.Field) {
	now := f.clock.Now()
	if err == nil {
		if lasted, known := f.end(subject, now); known && again != "" {
			f.log.Info(again, append(fields, zap.Duration("after", lasted))...)
		}
		return
	}
	lasted, news := f.extend(subject, reasonOf(err), now)
	if !news {
		return
	}
	fields = append(fields, zap.Error(err))
	if lasted > 0 {
		fields = append(fields, zap.Duration("for", lasted))
	}
	f.log.Log(level, failed, fields...)
}

// Over notes that an attempt at a subject has succeeded, and logs nothing.
func (f *Failures) Over(subject string) { f.end(subject, f.clock.Now()) }

// extend notes a failure. It returns how long the failures have lasted and whether to log this one.
func (f *Failures) extend(subject, reason string, now clock.Reading) (lasted time.Duration, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.open[subject]
	if s == nil || now.SinceAtLeast(s.last) >= failuresRepeat { // nothing is known of the time between
		s = &failure{first: now, logged: now}
		f.open[subject] = s
	}
	s.last = now
	if now.SinceAtLeast(s.logged) >= failuresRepeat {
		s.logged, s.reasons = now, nil
	}
	if len(s.reasons) == maxReasons || slices.Contains(s.reasons, reason) {
		return 0, false
	}
	s.reasons = append(s.reasons, reason)
	return now.SinceAtLeast(s.first), true
}

// end ends the failures of a subject. It returns how long they have lasted, and whether there were any.
func (f *Failures) end(subject string, now clock.Reading) (lasted time.Duration, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.open[subject]
	if s == nil {
		return 0, false
	}
	delete(f.open, subject)
	return now.SinceAtLeast(s.first), true
}

var numbers = regexp.MustCompile(`[0-9]+`)

// reasonOf returns what the errors of one failure have in common. Those of a connection name a
// different port each time.
func reasonOf(err error) string { return numbers.ReplaceAllString(err.Error(), "0") }
