package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// share makes this process a shard, whose program reaches the API server through it, until this
// process has to end or its term has ended.
func (j *job) share(ctx context.Context, config *rest.Config, parent *supervisor.Supervisor) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	counts := &requests{}
	var contender atomic.Pointer[replica.Replica]
	j.check = func() error {
		if r := contender.Load(); r != nil {
			return r.Alive(nil)
		}
		return nil
	}
	if err := j.answerProbes(counts); err != nil {
		return err
	}
	if err := j.await(ctx, client.CoreV1().RESTClient()); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	c := j.replica()
	c.Mapper, c.Supervisor, c.OnLost, c.Logger = mapper, parent, j.lost, j.log
	if j.health != "" {
		c.Healthy = j.healthy
	}
	r, err := replica.New(config, c)
	if err != nil {
		return usageError{err}
	}
	p, err := proxy.New(proxy.Config{
		Shard: r.Shard, Upstream: r.ShardConfig, Mapper: mapper, Resources: c.Resources,
		ShowMarks: j.ring.showMarks, OwnElection: j.ring.ownElection, DryRun: j.ring.dryRun,
		Logger: j.log,
		Hooks:  proxy.Hooks{OnRequest: counts.count},
	})
	if err != nil {
		return usageError{err}
	}
	counts.of(p)
	contender.Store(r)
	return r.Run(ctx, func(ctx context.Context) error { return j.serve(ctx, r, p) }, nil)
}

// await returns when the API server answers, which has to say what the resources are before this process can contend
// for the Lease of the shard. A candidate that is refused for a LeaseDuration ends, as in an election.
func (j *job) await(ctx context.Context, server rest.Interface) error {
	failures := kube.NewFailures(j.log, clock.System())
	refused := kube.NewRefusals(clock.System(), kube.RequestTimeout+j.warning)
	for {
		_, err := kube.Bounded(ctx, func(ctx context.Context) (any, error) {
			return nil, server.Get().AbsPath("/api").Do(ctx).Error() // DoRaw would not decode a refusal
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failures.Note("", err, "request failed, retrying", "request succeeds again")
		refused.Note("", kube.AccessDenied(err))
		if err == nil || refused.Lasted("") >= j.election.LeaseDuration {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(j.warning):
		}
	}
}

// replica returns the configuration that the flags give.
func (o *options) replica() replica.Config {
	c := replica.Config{
		Namespace: o.election.Namespace, Ring: o.ring.name, Identity: o.ring.shard, PodUID: o.election.PodUID,
		Weight: &o.ring.weight, Version: o.ring.version, Balance: o.ring.balance,
		LeaseDuration: o.election.LeaseDuration, KernelDeadline: true, Quiet: o.ring.quiet,
	}
	c.PodName, _ = os.Hostname() // the shard may have another name
	for _, r := range o.ring.resources {
		c.Resources = append(c.Resources, api.Resource{
			GVR: r, Children: o.ring.children, Selector: o.ring.selector, Namespaces: o.ring.namespaces,
		})
	}
	return c
}

// serve is one term of a shard. The proxy serves from before the program starts until it has ended.
func (j *job) serve(ctx context.Context, r *replica.Replica, p *proxy.Proxy) error {
	term, err := r.Lease.Term()
	if err != nil {
		return err
	}
	j.remaining = term.Remaining
	access, err := proxy.Listen(p)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer func() { _ = access.Close() }()
	beside.Go(func() { _ = access.Serve() })
	proxying, end := context.WithCancel(context.WithoutCancel(ctx)) // the program ends first
	defer end()
	ready := make(chan struct{})
	beside.Go(func() { _ = p.Run(proxying, func() { close(ready) }) })
	select {
	case <-ready:
	case <-ctx.Done():
		return nil
	}
	environment, remove, err := j.wayIn(access, r)
	if err != nil {
		return err
	}
	defer remove()
	return j.work(ctx, environment, zap.String("shard", r.Lease.Identity()))
}

// wayIn writes what clients of the program look for, and returns its environment.
func (j *job) wayIn(access *proxy.Access, r *replica.Replica) (environment []string, remove func(), err error) {
	kubeconfig, err := access.Kubeconfig(j.election.Namespace)
	if err != nil {
		return nil, nil, err
	}
	directory, err := os.MkdirTemp("", "bellwether-") // which only this user may read
	if err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.RemoveAll(directory) }
	path := filepath.Join(directory, "kubeconfig")
	if err = os.WriteFile(path, kubeconfig, 0o600); err == nil && j.ring.serviceAccount != "" {
		err = access.WriteServiceAccount(j.ring.serviceAccount, j.election.Namespace)
	}
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("write the program's credentials: %w", err)
	}
	return (&exec.Cmd{Env: append(os.Environ(),
		"KUBECONFIG="+path, "KUBERNETES_SERVICE_HOST="+access.Host, "KUBERNETES_SERVICE_PORT="+access.Port,
		"BELLWETHER_RING="+j.ring.name, "BELLWETHER_SHARD="+r.Lease.Identity(),
	)}).Environ(), remove, nil
}
