package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// settle releases all leases that a child held when it ended.
func (p *page) settle(code int) {
	signal.Ignore(unix.SIGPIPE) // the end of the reader of standard error ends nothing here
	held := p.held()
	if len(held) == 0 {
		return
	}
	// Nothing of the child may act any more, even past the deadlines, because another process leads
	// soon.
	last := process.SinceBoot() + held[0].Timing.Margin/4
	for _, h := range held {
		last = max(last, h.Until)
	}
	if !process.EndDescendants(last) {
		say("the process has ended (exit code %d); one that it has started has not, so its leases are not released",
			code)
		return
	}
	died := process.SinceBoot()
	var releases sync.WaitGroup
	for _, h := range held {
		releases.Go(func() { h.report(code, died, h.release(died)) })
	}
	releases.Wait()
}

// held returns the leases that the child held.
func (p *page) held() (all []inheritance) {
	for i := range min(int(p.used.Load()), len(p.slots)) {
		d, ok, err := p.slots[i].description()
		if err != nil {
			say("a lease is not released: %v", err)
		}
		if e := p.slots[i].entries(); ok && e.Until != 0 {
			all = append(all, inheritance{lease.Orphan{Claim: d.Claim, Entries: e}, d.Credentials})
		}
	}
	return all
}

// inheritance is a lease that the child held.
type inheritance struct {
	lease.Orphan
	credentials credentials
}

func (h inheritance) release(died time.Duration) error {
	client, err := coordinationclient.NewForConfig(leasehold.ClientConfig(h.credentials.config()))
	if err != nil {
		return err
	}
	c := clock.System()
	store := leasehold.NewStore(client, leasehold.Config{Lease: h.Lease, Clock: c, Log: zap.NewNop()}, 0)
	ctx := context.Background() //nolint:forbidigo // of the whole process, which does nothing else
	return leasehold.ReleaseOrphan(ctx, h.Orphan, store, c, process.SinceBoot, died)
}

// report prints what has become of the lease, unless it was no longer the child's.
func (h inheritance) report(code int, died time.Duration, err error) {
	outcome := fmt.Sprintf("was released %v later", (process.SinceBoot() - died).Round(time.Millisecond))
	switch {
	case errors.Is(err, lease.ErrTaken):
		return
	case err != nil:
		outcome = fmt.Sprintf("is not released: %v", err)
	}
	say("the process has ended (exit code %d), and its Lease %s %s", code, h.Lease, outcome)
}

// say prints a line, and waits briefly for the reader of standard error, which may have stopped or
// ended.
func say(format string, values ...any) {
	process.RunWithTimeout(func() { fmt.Fprintf(os.Stderr, "bellwether: "+format+"\n", values...) })
}
