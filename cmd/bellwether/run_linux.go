package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// run contends for the Lease and runs the program. It returns the exit code.
func run(o options) (code int) {
	parent := supervisor.Start()
	out := newOutput(os.Stderr)
	defer func() { _ = out.Sync() }()
	log, err := newLog(out)
	if err == nil {
		code, err = lead(o, parent, log)
	}
	var usage usageError
	switch {
	case err == nil:
		return code
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

func lead(o options, parent *supervisor.Supervisor, log *zap.Logger) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), heeded(unix.SIGTERM, unix.SIGINT)...)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // the end of the reader of the log does not end the term
	cluster := o.cluster()
	config, err := cluster.ClientConfig()
	if err != nil {
		return 0, usageError{fmt.Errorf("--kubeconfig: %w", err)}
	}
	if o.election.Namespace == "" {
		if o.election.Namespace, _, err = cluster.Namespace(); err != nil {
			return 0, usageError{fmt.Errorf("--namespace: %w", err)}
		}
	}
	processes, err := adopt(context.WithoutCancel(ctx))
	if err != nil {
		return 0, err
	}
	j := &job{options: o, processes: processes, log: log, wishes: make(chan os.Signal, 16)}
	if wishes := heeded(unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2); len(wishes) > 0 { // none: all
		signal.Notify(j.wishes, wishes...)
	}
	election := o.election
	election.Logger, election.Supervisor, election.KernelDeadline = log, parent.Client(config), true
	election.OnLost = j.lost
	if o.health != "" {
		election.Healthy = j.healthy
	}
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return 0, err
	}
	if j.elector, err = leaderelection.New(leases, election); err != nil {
		return 0, usageError{err}
	}
	t := lease.Timing{Duration: o.election.LeaseDuration}.WithDefaults()
	j.margin, j.warning = t.Margin, t.RenewInterval()
	err = j.elector.Run(ctx, j.run)
	return j.code, err
}

// heeded returns those of the signals that were not ignored at the start, as SIGHUP is by nohup. Those that
// were stay ignored, here and in the program.
func heeded(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// job is the program and what it needs.
type job struct {
	options
	elector   *leaderelection.Elector
	processes *children
	log       *zap.Logger
	wishes    chan os.Signal // signals for the program
	margin    time.Duration
	warning   time.Duration // before the deadline
	code      int
}

// errLosing is why a program was ended whose Lease could not be renewed, just in time.
var errLosing = errors.New("the Lease could not be renewed, so the program was ended before the deadline")

// run is one term. When it returns, no process of the program is left.
func (j *job) run(ctx context.Context) error {
	term, _ := leaderelection.TermFrom(ctx)
	for len(j.wishes) > 0 {
		<-j.wishes // it came while another replica led: it is not for this program
	}
	program, err := j.processes.start(j.program, j.arguments, j.environment(term), os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		j.code = exitOf(err)
		j.log.Error("the program does not start", zap.Error(err))
		return nil
	}
	j.log.Info("the program runs", zap.Int("pid", program.pid), zap.String("token", term.Token))
	err = j.attend(ctx, program)
	if _, killed := j.processes.end(time.Hour); killed { // longer than any term
		j.log.Info("processes were killed: waiting until none of their requests is under way",
			zap.Duration("margin", j.margin))
		<-time.After(j.margin)
	}
	return err
}

// attend waits until the program has ended, and ends it if need be.
func (j *job) attend(ctx context.Context, program child) error {
	var err error
	told, end := ctx.Done(), (<-chan time.Time)(nil)
	terminate := func() {
		j.processes.signal(program, unix.SIGTERM)
		end, told = time.After(j.grace), nil
	}
	for {
		// A stop of this process only delays the warning: at the deadline, it ends with its children.
		check := time.After(max(j.elector.Remaining()-j.warning, 100*time.Millisecond))
		select {
		case status := <-program.exit:
			j.code = codeOf(status)
			j.log.Info("the program has ended", zap.Int("exitCode", j.code))
			return err
		case <-told:
			terminate()
		case <-end:
			j.log.Warn("the program has not ended within its grace", zap.Duration("grace", j.grace))
			j.processes.end(time.Hour)
		case s := <-j.wishes:
			j.processes.signal(program, s.(unix.Signal))
		case <-check:
			if told != nil && j.elector.Remaining() <= j.warning {
				err = errLosing
				terminate()
			}
		}
	}
}

// lost ends the program at once, and then this process.
func (j *job) lost(err error) {
	j.processes.end(j.margin / 4)
	j.log.Error("not the leader any more", zap.Error(err))
	_ = j.log.Sync()
	os.Exit(leaderelection.ExitCodeNotLeader)
}

// healthy runs the health command. If it does not end in time, its process group is killed.
func (j *job) healthy(ctx context.Context) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	command, err := j.processes.start(shell, []string{"sh", "-c", j.health}, os.Environ(), null, os.Stderr, os.Stderr)
	if err != nil {
		return fmt.Errorf("health command: %w", err)
	}
	select {
	case status := <-command.exit:
		if code := codeOf(status); code != 0 {
			return fmt.Errorf("health command: exit code %d", code)
		}
		return nil
	case <-ctx.Done():
		j.processes.signal(command, unix.SIGKILL)
		<-command.exit
		return fmt.Errorf("health command: %w", context.Cause(ctx))
	}
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
