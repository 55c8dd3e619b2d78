package e2e

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockPoll     = 100 * time.Millisecond
	lockReminder = 30 * time.Second
)

// lockFile takes an exclusive lock on path, which it creates: against other processes and against
// other calls in this one. The kernel drops the lock when its holder dies. While another holds it,
// waiting is called at once and every 30 s. The file stays: removing it would let two holders lock
// two files of the same name.
func lockFile(ctx context.Context, path string, waiting func(waited time.Duration)) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var said time.Time
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			file.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
		if now := time.Now(); now.Sub(said) >= lockReminder {
			waiting(now.Sub(start))
			said = now
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}
