// Command replica is a sharded controller whose every act can be told apart: it prints when work on
// an object begins and when it ends, by the clock of the machine. It works on each of its objects
// again and again, so that no other process can do so unnoticed. Each of its clients has a name of
// its own, <part>/<identity>, by which the audit log tells its parts apart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	compose "github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// ringName is the ring of every replica: those of one namespace.
const ringName = "r"

type options struct {
	kubeconfig string
	qps        float64
	lease      shardlease.Config
	sharder    sharder.Config
	shard      shard.Config
	work       workOptions

	leaseOnly, withoutShard, withoutSharder bool
	plain, bridge                           bool

	supervised bool
	parent     *supervisor.Supervisor
}

func main() {
	o := parse()
	if o.supervised {
		o.parent = supervisor.Start()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() options {
	log := zap.Must(zap.NewDevelopment(zap.AddStacktrace(zap.ErrorLevel)))
	var o options
	var namespace string
	var duration time.Duration
	var resources []api.Resource
	var children []schema.GroupVersionResource
	flag.StringVar(&namespace, "namespace", "", "of the Leases, and of the objects")
	flag.DurationVar(&duration, "lease-duration", 0, "D")
	flag.Func("resource", "that is distributed, as [group/]version/resource, in the namespace",
		func(value string) error {
			gvr, err := parseResource(value)
			resources = append(resources, api.Resource{GVR: gvr, Namespaces: []string{""}})
			return err
		})
	flag.Func("cluster-resource", "that is distributed, where the label test=<namespace> is", func(value string) error {
		gvr, err := parseResource(value)
		resources = append(resources, api.Resource{GVR: gvr})
		return err
	})
	flag.Func("child", "resource of children of all that is distributed, as [group/]version/resource",
		func(value string) error {
			gvr, err := parseResource(value)
			children = append(children, gvr)
			return err
		})
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path")
	flag.Float64Var(&o.qps, "qps", -1, "rate limit of the sharder's clients; 0: client-go's default")
	flag.StringVar(&o.lease.Identity, "identity", "", "of this replica")
	flag.StringVar(&o.lease.PodUID, "incarnation", "", "UID of the Pod")
	flag.BoolVar(&o.supervised, "supervised", false, "have a supervisor, which releases the leases of a dead process")
	flag.DurationVar(&o.lease.MinUptime, "min-uptime", 0, "of a process whose lease the supervisor releases")
	flag.BoolVar(&o.lease.KernelDeadline, "kernel-deadline", false, "die by the kernel's timer")
	flag.DurationVar(&o.sharder.ScanInterval, "scan-interval", time.Minute, "of the sharder")
	flag.DurationVar(&o.sharder.GCPeriod, "gc-period", 0, "of the sharder")
	flag.IntVar(&o.sharder.MaxDrains, "max-drains", 0, "of the sharder")
	flag.Float64Var(&o.sharder.Balance, "balance", 0, "of the sharder")
	flag.BoolVar(&o.sharder.WatchAll, "watch-all", false, "of the sharder")
	flag.DurationVar(&o.sharder.OverdueAfter, "overdue-after", 0, "of the sharder")
	flag.DurationVar(&o.shard.AckGrace, "ack-grace", 0, "of the shard")
	flag.DurationVar(&o.work.takes, "work", 0, "how long work on an object takes")
	flag.DurationVar(&o.work.pace, "pace", 250*time.Millisecond,
		"pause between two pieces of work on one object, on average")
	flag.BoolVar(&o.work.stubborn, "stubborn", false, "work takes its time, whatever becomes of its context")
	flag.BoolVar(&o.work.writes, "write", false, "some of the work changes its object")
	flag.StringVar(&o.work.deadly, "deadly", "", "label of objects that work kills this process for")
	flag.IntVar(&o.work.controllers, "controllers", 1, "how many work on each object")
	flag.BoolVar(&o.leaseOnly, "lease-only", false, "hold the shard lease, and do nothing for it")
	flag.BoolVar(&o.withoutShard, "without-shard", false, "be a sharder only")
	flag.BoolVar(&o.withoutSharder, "without-sharder", false, "be a shard only")
	flag.BoolVar(&o.plain, "plain", false, "be no shard, but one of several replicas; client-go's elector lets one "+
		"of them work, on all objects")
	flag.BoolVar(&o.bridge, "bridge", false, "the same, with this project's elector, and not before the ring has ended")
	flag.Parse()
	for i, r := range resources {
		resources[i].Children = children
		if len(r.Namespaces) > 0 {
			r.Namespaces[0] = namespace
		} else {
			resources[i].Selector = labels.SelectorFromSet(labels.Set{"test": namespace})
		}
	}
	o.work.identity = o.lease.Identity
	o.lease.Namespace, o.lease.Ring, o.lease.LeaseDuration, o.lease.Logger = namespace, ringName, duration, log
	o.lease.Hooks.OnHeld = func(e shardlease.Epoch) { say("held", e.Number) }
	o.lease.Hooks.OnWaiting = func(s shardlease.HolderInfo) { say("waiting", s.Holder) }
	o.sharder.Namespace, o.sharder.Ring, o.sharder.LeaseDuration, o.sharder.Logger = namespace, ringName, duration, log
	o.sharder.Resources, o.shard.Resources = resources, resources
	o.sharder.Hooks = sharder.Hooks{
		OnMembership: func(members []string) { say("members", strings.Join(members, ",")) },
		OnSettled:    func(members []string) { say("settled", strings.Join(members, ",")) },
		OnTaken:      func(shard string) { say("taken", shard) },
		OnCollected:  func(shard string) { say("collected", shard) },
		OnOverdue:    func(late sharder.Overdue) { say("overdue", late.Object.Name, late.Shard) },
		OnScan:       func(found sharder.Scan) { say("scan", found.Objects, found.Placed) },
	}
	o.shard.Logger = log
	return o
}

func parseResource(value string) (gvr schema.GroupVersionResource, err error) {
	parts := strings.Split(value, "/")
	switch len(parts) {
	case 2:
		return schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}, nil
	case 3:
		return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}, nil
	}
	return gvr, errors.New("want [group/]version/resource")
}

// saying keeps lines whole, and the end of the process away from their middle.
var saying sync.Mutex

// say prints a line for the test.
func say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	if o.supervised {
		o.lease.Supervisor = o.parent.Client(config)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	r := &replica{
		options: o, config: config,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
	}
	go r.reportMemory(ctx)
	return r.run(ctx)
}

// replica is what the parts of this process are made from.
type replica struct {
	options
	config *rest.Config
	mapper meta.RESTMapper
}

// client returns the configuration of a client of one part.
func (r *replica) client(part string) *rest.Config {
	config := rest.CopyConfig(r.config)
	config.UserAgent = part + "/" + r.lease.Identity
	return config
}

func (r *replica) run(ctx context.Context) error {
	say("started")
	if r.plain {
		return r.runPlain(ctx)
	}
	if r.bridge {
		return r.runBridge(ctx)
	}
	elector, s, err := r.newSharder(func(err error) { fmt.Fprintln(os.Stderr, err) })
	if err != nil {
		return err
	}
	if r.withoutShard {
		return elector.Run(ctx, s.Run)
	}
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(r.client("lease")))
	if err != nil {
		return err
	}
	lease, err := shardlease.New(leases, r.lease)
	if err != nil {
		return err
	}
	if r.leaseOnly {
		return lease.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}
	work, err := r.newWorker(lease)
	if err != nil {
		return err
	}
	if r.withoutSharder {
		return lease.Run(ctx, work.run)
	}
	whole := &compose.Replica{Lease: lease, Shard: work.shard, Elector: elector, Sharder: s}
	return whole.Run(ctx, work.run, nil)
}

func (r *replica) newWorker(lease *shardlease.Lease) (*worker, error) {
	config := r.client("shard")
	config.Wrap(lease.WrapTransport)
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	config = r.client("work")
	config.Wrap(lease.WrapTransport)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	shard, err := shard.New(objects, r.mapper, lease, r.shard)
	if err != nil {
		return nil, err
	}
	return &worker{
		workOptions: r.work, shard: shard, client: client, mapper: r.mapper,
		resources: r.shard.Resources,
	}, nil
}

func (r *replica) newSharder(onLost func(error)) (*leaderelection.Elector, *sharder.Sharder, error) {
	candidate, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(r.client("elector")))
	if err != nil {
		return nil, nil, err
	}
	elector, err := leaderelection.New(candidate, leaderelection.Config{
		Namespace: r.sharder.Namespace, Name: electionName, Identity: r.lease.Identity,
		LeaseDuration: r.sharder.LeaseDuration,
		OnLost:        onLost,
		Supervisor:    r.lease.Supervisor,
		Hooks:         leaderelection.Hooks{OnStartedLeading: func(leaderelection.Term) { say("sharder") }},
		Logger:        r.sharder.Logger,
	})
	if err != nil {
		return nil, nil, err
	}
	config := r.client("sharder")
	config.QPS = float32(r.qps)
	config.Wrap(elector.WrapTransport)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	s, err := sharder.New(kube, objects, r.mapper, r.sharder)
	return elector, s, err
}

// reportMemory prints, whenever it is sent SIGUSR1, the live heap of the process in bytes.
func (r *replica) reportMemory(ctx context.Context) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		runtime.GC() // the second empties what the first left in pools
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		say("heap", m.HeapAlloc)
	}
}
