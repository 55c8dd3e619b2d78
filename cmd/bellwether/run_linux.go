package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// run contends for the Lease and runs the program. It returns the exit code.
func run(o options) (code int) {
	if err := process.CheckProc(); err != nil {
		say("%v", err)
		return exitUnavailable
	}
	j := &job{options: o, over: make(chan struct{})}
	var parent *supervisor.Supervisor
	if o.after != "" {
		j.host = clearedHost(o)
	} else {
		parent = supervisor.Start()
	}
	out := newOutput(os.Stderr)
	defer func() { _ = out.Sync() }()
	log, err := newLog(out)
	if err == nil {
		j.log = log
		err = j.contend(parent)
	}
	if !j.began {
		j.host.cleared()
	}
	var usage usageError
	switch {
	case err == nil:
		return j.code
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(out, "bellwether run:", err)
		return exitUsage
	case errors.Is(err, errLosing):
		log.Error(err.Error())
		return leaderelection.ExitCodeNotLeader
	}
	_, _ = fmt.Fprintln(out, "bellwether run:", err)
	return exitUnavailable
}

// usageError is about a flag.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// target returns the configuration of a client, and sets the namespace.
func (o *options) target() (*rest.Config, error) {
	var config *rest.Config
	cluster, flag, err := o.cluster()
	if err == nil {
		config, err = cluster.ClientConfig()
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	if o.election.Namespace == "" {
		if o.election.Namespace, _, err = cluster.Namespace(); err != nil {
			return nil, usageError{fmt.Errorf("--namespace: %w", err)}
		}
	}
	return config, nil
}

// contend contends for the Lease until this process has to end or its term has ended.
func (j *job) contend(parent *supervisor.Supervisor) error {
	ctx, signals := newSignals(context.Background(), j.stop)
	j.signals = signals
	config, err := j.target()
	if err != nil {
		return err
	}
	if err := checkKillTimer(); err != nil {
		return err
	}
	if j.processes, err = adopt(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	t := lease.Timing{Duration: j.election.LeaseDuration}.WithDefaults()
	j.margin, j.warning = t.Margin, t.RenewInterval()
	if j.ring.name != "" {
		err = j.share(ctx, config, parent)
		j.codeOfStop(ctx)
		return err
	}
	election := j.election
	election.Logger, election.KernelDeadline, election.OnLost = j.log, true, j.lost
	if parent != nil {
		election.Supervisor = parent.Client(config)
	}
	if j.health != "" {
		election.Healthy = j.healthy
	}
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	if j.elector, err = leaderelection.New(leases, election); err != nil {
		return usageError{err}
	}
	j.remaining, j.check = j.elector.Remaining, func() error { return j.elector.Check(nil) }
	if err := j.answerProbes(nil); err != nil {
		return err
	}
	err = j.elector.Run(ctx, j.run)
	j.codeOfStop(ctx)
	return err
}

// codeOfStop sets the exit code for a stop before the program was started.
func (j *job) codeOfStop(ctx context.Context) {
	var end endError
	if !j.began && errors.As(context.Cause(ctx), &end) {
		j.code = end.code()
	}
}

// answerProbes answers a kubelet's probes, and with metrics, if that is asked for.
func (j *job) answerProbes(metrics http.Handler) error {
	if j.probes == "" {
		return nil
	}
	at, err := serveProbes(j.probes, j.ready, j.check, metrics)
	if err != nil {
		return err
	}
	j.log.Info("answering probes", zap.Stringer("address", at))
	return nil
}

// checkKillTimer returns an error if this system refuses one, which no flag could change.
func checkKillTimer() error {
	timer, err := process.NewKillTimer()
	if err != nil {
		return err
	}
	return timer.Close()
}

// job is the program and what it needs.
type job struct {
	options
	elector   *leaderelection.Elector // nil for a shard
	remaining func() time.Duration    // of the term
	check     func() error            // whether this process is alive
	processes *children
	signals   *signals
	host      *host // nil if there is nothing to clear
	log       *zap.Logger
	margin    time.Duration
	warning   time.Duration // before the deadline
	code      int
	began     bool                  // the program was started
	over      chan struct{}         // closed when it has ended
	ill       atomic.Pointer[error] // the last result of the health command, if any
}

// errLosing is why a program whose Lease could not be renewed was ended just in time.
var errLosing = errors.New("the Lease could not be renewed, so the program was ended before the deadline")

// run is one term of a leader.
func (j *job) run(ctx context.Context) error {
	term, _ := leaderelection.TermFrom(ctx)
	return j.work(ctx, j.environment(term), zap.String("token", term.Token))
}

// work runs the program. When it returns, no process of the program is left, and the host is clear.
func (j *job) work(ctx context.Context, environment []string, about zap.Field) error {
	signals := j.signals.lead()
	if ctx.Err() != nil {
		return nil
	}
	program, err := j.processes.program(j.program, j.arguments, environment)
	if err != nil {
		j.code, j.began = exitOf(err), true
		j.host.cleared()
		j.log.Error("the program does not start", zap.Error(err))
		return nil
	}
	j.began = true
	j.log.Info("the program runs", zap.Int("pid", program.pid), about)
	err = j.attend(ctx, program, signals)
	close(j.over)
	killed := j.end()
	j.clear(ctx)
	if killed {
		j.log.Info("processes were killed: waiting until none of their requests is under way",
			zap.Duration("margin", j.margin))
		<-time.After(j.margin)
	}
	return err
}

// attend waits until the program has ended, and ends it if need be.
func (j *job) attend(ctx context.Context, program child, signals <-chan syscall.Signal) error {
	var err error
	told, exit, end := ctx.Done(), program.exit, (<-chan time.Time)(nil)
	var stop syscall.Signal
	tell := func(cause error) {
		stop, told, end = j.signals.stopOf(cause), nil, time.After(j.grace)
		j.processes.signal(program, stop)
		j.processes.signal(program, unix.SIGCONT) // a stopped process does not end
	}
	left := orphans{j.processes, map[int]bool{}}
	for {
		// A stop of this process only delays the warning: at the deadline, it ends with its children.
		pause := max(j.remaining()-j.warning, 100*time.Millisecond)
		if exit == nil {
			if left.tell(stop) {
				return err
			}
			pause = 20 * time.Millisecond
		}
		select {
		case status := <-exit:
			j.code = codeOf(status)
			j.log.Info("the program has ended", zap.Int("exitCode", j.code))
			if end == nil {
				return err
			}
			exit = nil // what it has left behind has the rest of its grace
		case <-told:
			tell(context.Cause(ctx))
		case <-end:
			j.log.Warn("the program has not ended within its grace", zap.Duration("grace", j.grace))
			j.end()
		case s := <-signals:
			j.processes.signal(program, s)
		case <-time.After(pause):
			if told != nil && j.remaining() <= j.warning {
				err = errLosing
				tell(err)
			}
		}
	}
}

// end kills all processes of the program and waits until they have ended, however long, because the next
// leader must not start before.
func (j *job) end() (killed bool) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		ended, killed := j.processes.end(pause)
		if ended {
			return killed
		}
		j.log.Warn("processes of the program cannot be killed: the Lease is held until they have ended",
			zap.Ints("pids", own()))
	}
}

// clear runs the command of --after. If it fails, this process ends, its parent tries once more, and the
// Lease is not released.
func (j *job) clear(ctx context.Context) {
	if j.after == "" {
		return
	}
	ctx, cancel := j.clearing(context.WithoutCancel(ctx))
	defer cancel()
	err := j.processes.command(ctx, j.after)
	j.end() // what the command has left
	if err != nil {
		j.log.Error("--after has failed: the Lease is not released", zap.Error(err))
		_ = j.log.Sync()
		os.Exit(leaderelection.ExitCodeNotLeader)
	}
	j.host.cleared()
}

// lost ends the program at once, and then this process.
func (j *job) lost(err error) {
	j.processes.end(j.margin / 4)
	j.log.Error("not the leader any more", zap.Error(err))
	_ = j.log.Sync()
	os.Exit(leaderelection.ExitCodeNotLeader)
}

// healthy runs the health command until the program has ended.
func (j *job) healthy(ctx context.Context) error {
	if j.ended() {
		return nil
	}
	err := j.processes.command(ctx, j.health)
	if j.ended() {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("health command: %w", err)
	}
	j.ill.Store(&err)
	return err
}

func (j *job) ended() bool {
	select {
	case <-j.over:
		return true
	default:
		return false
	}
}

// ready returns the last result of the health command. A candidate is always ready, because it does all
// that it has to.
func (j *job) ready() error {
	if err := j.ill.Load(); err != nil {
		return *err
	}
	return nil
}

// environment is that of the program in a term.
func (j *job) environment(t leaderelection.Term) []string {
	// A Cmd removes duplicates, as of a bellwether that runs in another one.
	return (&exec.Cmd{Env: append(os.Environ(),
		"BELLWETHER_LEASE="+j.election.Namespace+"/"+j.election.Name,
		"BELLWETHER_LEASE_UID="+string(t.LeaseUID),
		"BELLWETHER_IDENTITY="+t.Identity,
		"BELLWETHER_TERM="+strconv.Itoa(int(t.Transitions)),
		"BELLWETHER_TOKEN="+t.Token,
	)}).Environ()
}

// codeOf returns the exit code that shells give a status.
func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
