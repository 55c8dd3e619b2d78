package fencejobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// metadataLasts is how long the metadata of an agent, or its absence, is cached.
const metadataLasts = 10 * time.Minute

// Jobs runs fence agents as Jobs. It is safe for concurrent use.
type Jobs struct {
	client kubernetes.Interface
	config Config

	mu    sync.Mutex
	known map[string]known // by the agent's name
}

type known struct {
	at       time.Time
	metadata agent.Metadata
	err      error // the agent does not exist
}

var _ agent.Agent = (*Jobs)(nil)

// New validates the configuration. It sends no requests. The client should be that of the
// controller, with the elector's WrapTransport and without a rate limit.
func New(client kubernetes.Interface, c Config) (*Jobs, error) {
	c, err := c.complete()
	if client == nil {
		err = errors.Join(errors.New("fencejobs: client: required (got nil)"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Jobs{client: client, config: c, known: map[string]known{}}, nil
}

// Power reads the plug with a separate Job. An answer counts only if the pod has read after the
// start of the call, and at most AnswerWithin before its end.
func (j *Jobs) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	power := agent.PowerUnknown
	r, err := j.reading(ctx, "fence-read-", readPower, target, func(to request, answer result, now time.Time) error {
		var err error
		power, err = answer.power(to, now, j.config.AnswerWithin)
		return err
	})
	if err != nil {
		return agent.PowerUnknown, failure(r, err)
	}
	return power, nil
}

// Metadata describes an agent, with a Job unless a result of the last 10 min is cached. It omits
// refused parameters and texts for people.
func (j *Jobs) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	j.mu.Lock()
	last, ok := j.known[name]
	j.mu.Unlock()
	if ok && time.Since(last.at) < metadataLasts {
		return last.metadata, last.err
	}
	before := last
	last = known{at: time.Now()}
	r, err := j.reading(
		ctx,
		"fence-metadata-",
		readMetadata,
		agent.Target{Agent: name},
		func(_ request, answer result, _ time.Time) error {
			var err error
			last.metadata, err = answer.metadata()
			return err
		},
	)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		last = known{at: last.at, err: failure(r, err)}
	case err != nil && ok && before.err == nil: // it belongs to the image, which changes rarely
		return before.metadata, nil
	case err != nil:
		return agent.Metadata{}, failure(r, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known[name] = last
	return last.metadata, last.err
}

// reading runs a Job that reads, passes its answer to take, and deletes it.
func (j *Jobs) reading(
	ctx context.Context,
	prefix string,
	a action,
	target agent.Target,
	take func(to request, answer result, now time.Time) error,
) (request, error) {
	now := time.Now()
	// A unique name, so that an old answer is never taken for a new one.
	r := newRequest(prefix+strings.ToLower(rand.Text()[:16]), a, target, window{})
	var err error
	timeout := j.config.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = left(ctx, now, deadline.Sub(now))
	}
	if r.Window, err = open(now, timeout, timeout, j.config); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	job, err := j.create(ctx, r)
	if job != nil {
		defer j.remove(ctx, job)
	}
	if err != nil {
		return r, err
	}
	answer, err := j.await(ctx, job, r, false)
	if err == nil {
		// A late answer does not count, however long this process was stopped.
		err = cmp.Or(take(r, answer, time.Now()), ctx.Err())
	}
	j.log(r, now, err)
	return r, err
}

// Switch sends the command with one Job, which has the command's ID as its name. The Job may
// already exist, created by another process or by a request of this one that had no answer. Switch
// returns when the agent has ended and its pod cannot run again. Otherwise it returns after ctx has
// ended, but not before the time is over in which a pod may send anything. The error does not show
// whether the plug was switched.
func (j *Jobs) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	now, timeout := time.Now(), cmp.Or(command.Timeout, j.config.Timeout)
	r := newRequest(command.ID, action(command.Action), target, window{})
	switch {
	case !r.Action.sends():
		return fmt.Errorf("fencejobs: Command.Action: must be off or on (got %q)", command.Action)
	case len(validation.IsDNS1123Label(command.ID)) > 0 || len(command.ID) > maxName:
		return fmt.Errorf(
			"fencejobs: Command.ID: must be a DNS label of at most %d characters, for it names the Job (got %q)",
			maxName,
			command.ID,
		)
	case target.Node == "":
		return errors.New("fencejobs: Target.Node: required: the pod must not run there (got \"\")")
	case timeout <= 2*j.config.ClockSkew:
		return fmt.Errorf(
			"fencejobs: Command.Timeout: must be more than twice ClockSkew, which is %v (got %v)",
			j.config.ClockSkew,
			timeout,
		)
	}
	var err error
	left := left(ctx, now, timeout)
	if r.Window, err = open(now, left, timeout, j.config); err != nil {
		return failure(r, err)
	}
	calling, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	job, err := j.create(calling, r)
	if job == nil {
		return failure(r, err)
	}
	var answer result
	if err == nil {
		answer, err = j.await(calling, job, r, true)
	}
	j.removeSecret(ctx, job) // if it was not read, nothing can start any more
	if err == nil {
		err = answer.err()
	} else if calling.Err() != nil {
		j.giveUp(ctx, job, r)
	}
	j.log(r, now, err)
	return failure(r, err)
}

func (j *Jobs) log(r request, began time.Time, err error) {
	j.config.Logger.Debug(
		"ran a fence agent",
		zap.String("job", j.config.Namespace+"/"+r.ID),
		zap.String("agent", r.Agent),
		zap.String("device", r.Device),
		zap.String(
			"node",
			r.Node,
		),
		zap.String("action", string(r.Action)),
		zap.Duration("took", time.Since(began)),
		zap.Error(err),
	)
}

// failure returns the error of a call, without secrets, or nil if err is nil.
func failure(r request, err error) error {
	switch {
	case err == nil:
		return nil
	case r.Action == readMetadata:
		return fmt.Errorf("fencejobs: metadata of %s by Job %s: %w", r.Agent, r.ID, err)
	}
	return fmt.Errorf("fencejobs: %s of %s for node %s by Job %s: %w", r.Action, r.Device, r.Node, r.ID, err)
}

// newSecretName returns a random name that no Secret of another Job has had.
func newSecretName(job string) string { return job + "-" + strings.ToLower(rand.Text()[:10]) }

// ended reports whether the Job controller has finished the Job and creates no more pods.
func ended(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == "True"
	})
}
