package live

import (
	"context"
	"errors"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// crew are the processes of a job that are to run. What they report says how they are.
type crew struct {
	*stage
	job       string
	args      []string
	identity  string                  // the flag with the name of a process; empty: none
	processes map[string]*e2e.Process // by their names
}

func (c *crew) target(name string) Target { return Target{c.job, name} }

func (c *crew) happened(what string) { c.scraper.happened(c.job, what) }

func (c *crew) launch(ctx context.Context, names ...string) error {
	for _, name := range names {
		args := append([]string{"-health-address", "127.0.0.1:0"}, c.args...)
		if c.identity != "" {
			args = append(args, c.identity, name)
		}
		p, err := c.start(ctx, c.target(name), e2e.Command{Args: args})
		if err != nil {
			return err
		}
		c.processes[name] = p
	}
	return nil
}

// kill ends a process without a word.
func (c *crew) kill(name string) error {
	p := c.processes[name]
	delete(c.processes, name)
	return p.Kill()
}

// end ends a process as a rollout does.
func (c *crew) end(ctx context.Context, name string) error {
	p := c.processes[name]
	delete(c.processes, name)
	if err := p.Terminate(); err != nil {
		return err
	}
	_, err := p.Wait(ctx)
	return err
}

// await waits for a condition. A process that has ended by itself is started again, as by a
// kubelet: on a busy machine it may lose its lease.
func (c *crew) await(ctx context.Context, what string, so func(ctx context.Context) (bool, error)) error {
	return c.stage.await(ctx, what, func(ctx context.Context) (bool, error) {
		var errs []error
		for name, p := range c.processes {
			select {
			case <-p.Done():
				c.happened(name + " has ended, and is started again")
				errs = append(errs, c.launch(ctx, name))
			default:
			}
		}
		if err := errors.Join(errs...); err != nil {
			return false, err
		}
		return so(ctx)
	})
}

// leader is the process that says that it leads, empty if there is none.
func (c *crew) leader() string {
	for name := range c.processes {
		if c.scraper.value(c.target(name), "bellwether_leaderelection_leading") == 1 {
			return name
		}
	}
	return ""
}

// led waits until there is a leader.
func (c *crew) led(ctx context.Context) (leader string, err error) {
	err = c.await(ctx, "a leader of "+c.job, func(context.Context) (bool, error) {
		leader = c.leader()
		return leader != "", nil
	})
	return leader, err
}
