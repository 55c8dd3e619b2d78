package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// share makes this process a shard, whose program reaches the API server through it, until this
// process has to end or its term has ended.
func (j *job) share(ctx context.Context, config *rest.Config, parent *supervisor.Supervisor) error {
	discovery, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.Discovery()))
	c := j.replica()
	c.Mapper, c.Supervisor, c.OnLost, c.Logger = mapper, parent, j.lost, j.log
	if j.health != "" {
		c.Healthy = j.healthy
	}
	r, err := replica.New(config, c)
	if err != nil {
		return ofFlags(err)
	}
	counts := &requests{}
	p, err := proxy.New(proxy.Config{
		Shard: r.Shard, Upstream: r.ShardConfig, Mapper: mapper, Resources: c.Resources,
		ShowMarks: j.ring.showMarks, OwnElection: j.ring.ownElection, DryRun: j.ring.dryRun,
		Logger: j.log,
		Hooks:  proxy.Hooks{OnRequest: counts.count},
	})
	if err != nil {
		return ofFlags(err)
	}
	counts.objects = p.Objects
	j.check = func() error { return r.Alive(nil) }
	if err := j.answerProbes(counts); err != nil {
		return err
	}
	return r.Run(ctx, func(ctx context.Context) error { return j.serve(ctx, r, p) }, nil)
}

// ofFlags returns the error of a configuration as one of the flags, unless the API server has not answered a question
// about them.
func ofFlags(err error) error {
	var network net.Error
	var status apierrors.APIStatus
	if errors.As(err, &network) || errors.As(err, &status) {
		return err
	}
	return usageError{err}
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
