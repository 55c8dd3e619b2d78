package leasehold

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Config configures the candidate, the holder and the guard of one lease. Packages leaderelection
// and shardlease fill it from their own.
type Config struct {
	Lease          types.NamespacedName
	Identity       string // unique for each process
	Timing         lease.Timing
	TrustForeign   bool                        // treat an empty record of another elector as released
	ReleaseTimeout time.Duration               // bounds the time until work returns; no limit if zero
	StepDown       time.Duration               // how long before the deadline work is asked to end; never if zero
	MaxFailing     time.Duration               // of [Candidate.Check]
	Address        string                      // of the holder, for the record; may be empty
	Pod            Pod                         // of this process, or zero
	Healthy        func(context.Context) error // always healthy if nil
	NotHeld        error                       // matched by all errors of the guard
	Guard          GuardConfig
	KernelDeadline bool
	Supervisor     *SupervisorClient // may be nil
	Clock          clock.Clock
	Log            *zap.Logger

	KillTimer  KillTimer       // kills the process after the deadline; may be nil
	Process    string          // the mark of this process in the records
	Ledger     lease.Ledger    // for the supervisor; may be nil
	Hasten     <-chan struct{} // makes a renewal follow at once; may be nil
	NoteWrites bool            // for the next term, see package handover
	Events     bool            // the process records Events about the lease
	Variant    Variant         // of this kind of lease

	OnLost    func(*lease.LostError)                   // called once for a lost term, before Run returns
	OnHolder  func(holder lease.Record)                // called with every seen version, with or without a holder
	OnWait    func(r lease.Record, wait time.Duration) // called by Wait; may be nil
	OnFinish  func()                                   // called once for a term that was not lost, before the release
	OnRenewal func(latency time.Duration, err error)   // called after each attempt to renew
	OnFailing func(lasted time.Duration, err error)    // see [kube.Contact]; may be nil
}

// Variant has the differences between kinds of leases. Its functions are pure, and each may be nil.
type Variant struct {
	// Unfit returns why a candidate must never take a record. A holder that sees such a record has
	// lost the lease.
	Unfit func(r lease.Record) error
	// Reclaim reports whether the holder of a record is known to have ended. Candidates then need
	// not wait.
	Reclaim func(r lease.Record) bool
	// Dress completes the metadata of a write that takes a lease over from prior, or that renews or
	// releases it; prior is then the version that began the term. leaving reports that work was
	// asked to stop and has not ended yet.
	Dress func(l *coordinationv1.Lease, prior lease.Record, leaving bool)
	// SaysLeaving sends a renewal as soon as work is asked to stop, so that others see it.
	SaysLeaving bool
	// Altered returns why r is no longer of the term that began with first, although its spec may
	// be.
	Altered func(first, r lease.Record) error
}

// whyUnfit returns why a record must never be taken, even without a holder.
func (v Variant) whyUnfit(r lease.Record) error {
	switch {
	case r.Coordinated():
		return lease.ErrCoordinated
	case r.ForLife():
		return lease.ErrForLife
	case v.Unfit == nil || !r.Exists():
		return nil
	}
	return v.Unfit(r)
}

// reclaims reports whether the holder of a record is known to have ended.
func (v Variant) reclaims(r lease.Record) bool { return v.Reclaim != nil && r.Exists() && v.Reclaim(r) }

// whyAltered returns why r is no longer of the term that began with first.
func (v Variant) whyAltered(first, r lease.Record) error {
	if v.Altered == nil || !r.Exists() {
		return nil
	}
	return v.Altered(first, r)
}

// dressed returns l with its metadata complete.
func (v Variant) dressed(l *coordinationv1.Lease, prior lease.Record, leaving bool) *coordinationv1.Lease {
	if v.Dress != nil {
		v.Dress(l, prior, leaving)
	}
	return l
}

// SupervisorClient opens what a process shares with its supervisor.
type SupervisorClient struct {
	// Open returns the ledger of a lease, or nil if there is no supervisor. Call forget if this
	// process has not held the lease, and will not hold it by this ledger.
	Open func(c lease.Claim, log *zap.Logger) (l lease.Ledger, forget func(), err error)
}

// Review adds the rules that the fields of all kinds of leases break. Timing must have its defaults.
func (c Config) Review(review *kube.Review) {
	review.Value("Namespace", c.Lease.Namespace, kube.NamespaceProblems(c.Lease.Namespace))
	review.Value("PodUID", string(c.Pod.UID), TextProblems(string(c.Pod.UID)))
	if c.Pod.Name != "" {
		review.Value("PodName", c.Pod.Name, validation.IsDNS1123Subdomain(c.Pod.Name))
	}
	review.Duration("ReleaseTimeout", c.ReleaseTimeout)
	timing := c.Timing.Validate()
	review.Add(timing...)
	if len(timing) > 0 {
		return
	}
	if longest := c.Timing.LongestStepDown(); c.StepDown < 0 || c.StepDown > longest {
		review.Add(fmt.Errorf("StepDown: must be from 0 to %v, so that two renewals are tried before: "+
			"(MissedRenewals - 1) * (LeaseDuration - Margin) / (MissedRenewals + 1) (got %v)", longest, c.StepDown))
	} else {
		review.Duration("StepDown", c.StepDown)
	}
	if c.MaxFailing != 0 && c.MaxFailing < c.Timing.Duration { // one failed renewal, or one lost term, could exceed it
		review.Add(fmt.Errorf("MaxFailing: must be 0 or at least LeaseDuration, %v (got %v)", c.Timing.Duration,
			c.MaxFailing))
	}
}

// TextProblems returns what is wrong with a text in a record.
func TextProblems(text string) []string {
	var problems []string
	if len(text) > validation.DNS1123SubdomainMaxLength {
		problems = append(problems, validation.MaxLenError(validation.DNS1123SubdomainMaxLength))
	}
	if !utf8.ValidString(text) { // the API server would store other bytes
		problems = append(problems, "must be valid UTF-8")
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		problems = append(problems, "must not contain control characters such as newlines")
	}
	return problems
}

// New returns the candidate of a new process. Its errors name the field of the public configs.
func New(client kubernetes.Interface, c Config) (*Candidate, error) {
	if err := checkRate(client, c.Timing, c.Log); err != nil {
		return nil, err
	}
	if c.KernelDeadline && c.KillTimer == nil {
		timer, err := process.NewKillTimer()
		if err != nil {
			return nil, fmt.Errorf("KernelDeadline: %w", err)
		}
		c.KillTimer = timer
	}
	c.Process = rand.Text()[:16] // 80 bits: no two processes of all clusters have the same
	forget := func() {}
	if c.Supervisor != nil {
		var err error
		c.Ledger, forget, err = c.Supervisor.Open(lease.Claim{
			Lease: c.Lease, Process: c.Process, Timing: c.Timing, MinUptime: c.Pod.MinUptime,
		}, c.Log)
		if err != nil {
			return nil, fmt.Errorf("Supervisor: %w", err) //nolint:staticcheck // the name of a field
		}
	}
	candidate := newCandidate(client, c)
	candidate.forget = forget
	return candidate, nil
}

// checkRate returns an error if the client's rate limit would let a lease expire. It warns about
// any other rate limit.
func checkRate(client kubernetes.Interface, t lease.Timing, log *zap.Logger) error {
	api := client.CoordinationV1().RESTClient()
	if api == nil || api.GetRateLimiter() == nil {
		return nil
	}
	qps, interval := api.GetRateLimiter().QPS(), t.RenewInterval()
	switch {
	case qps <= 0: // no limit
	case float64(qps)*interval.Seconds() < 2:
		return fmt.Errorf("client: must be allowed at least two requests in each renew interval of %v "+
			"(got a limit of %v per second): make it from LeaseConfig", interval, qps)
	default:
		log.Warn("the client of the lease has a rate limit: renewals wait behind other requests of that client; make "+
			"it from LeaseConfig", zap.Float32("qps", qps))
	}
	return nil
}

// Exit returns a function that logs message with the error and ends the process with
// [process.ExitCode]. If the work's own error is the reason, it logs that instead of message.
func Exit(logger *zap.Logger, message string) func(error) {
	return func(err error) {
		process.Exit(func() {
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error(exitReason(message, err)+": ending the process",
				zap.Error(err), zap.Int("exitCode", process.ExitCode))
			_ = logger.Sync() // fails on terminals
		})
	}
}

// exitReason returns message, unless the work's own error is the reason.
func exitReason(message string, err error) string {
	if errors.Is(err, lease.ErrUnfinished) {
		return "the work has failed"
	}
	return message
}
