package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// Config of a [Replica]. Namespace, Ring and Resources are required, and the same in all replicas.
// The packages of the parts explain each field in full.
type Config struct {
	// Namespace of the Leases.
	Namespace string
	// Ring is the name of the ring, a DNS-1123 label.
	Ring string
	// Resources that are distributed.
	Resources []api.Resource

	// Identity is the name of this shard. It differs in each replica and stays the same over
	// restarts. Default: the hostname, which is a Pod's name.
	Identity string
	// PodUID is the UID of this Pod, as from the downward API. With it, a restarted container takes
	// its lease back at once, and when the kubelet reports that the container has ended, others
	// need not wait until its Leases have expired. Default: none.
	PodUID string
	// PodName is the name of this Pod, in Namespace. Default: Identity.
	PodName string

	// LeaseDuration (D) is the time after which a lease that was not renewed has expired. Objects of
	// a dead shard go to others after 2D. Whole seconds. Default: 15 s.
	LeaseDuration time.Duration
	// StepDown is how long before the deadline of its lease the work is asked to end, if the lease
	// cannot be renewed. If it has ended by the deadline, the process stays, and takes the lease
	// back later; see [shardlease.Config]. The sharder is asked one renew interval earlier. At most
	// that interval, which is 3 s with the default LeaseDuration. Default: 0, the process ends.
	StepDown time.Duration
	// ReleaseTimeout is how long work may take to end. Default: no limit.
	ReleaseTimeout time.Duration
	// ReturnWithin is how long objects wait for a shard that has released its lease. Default: they
	// go to others at once.
	ReturnWithin time.Duration
	// Weight is how many objects this shard gets, compared with others: 0 to 1,000. An administrator
	// may override it; see [shardlease.Config]. Nil: 100.
	Weight *int
	// Version is the version of the program, which kubectl bellwether shows. It has no effect. Default:
	// none.
	Version string
	// KernelDeadline makes the kernel kill this process if it is stopped past the deadline of its
	// lease. Linux only; see [shardlease.Config].
	KernelDeadline bool

	// Supervisor releases the Leases of this process when it has died. Call supervisor.Start first
	// in main; see [shardlease.Config]. Default: none, the Leases expire.
	Supervisor *supervisor.Supervisor

	// OnLost is called once when the lease is lost, and Healthy reports whether the work is alive;
	// see [shardlease.Config]. Default: the process ends, and work is always healthy.
	OnLost  func(error)
	Healthy func(ctx context.Context) error

	// ElectionName is the name of the Lease of the sharder's election. Default: the name of the ring
	// with "-sharder" appended.
	ElectionName string

	// AckGrace is how long work may continue on an object that must move to another shard; see
	// [shard.Config]. Default: 10 s.
	AckGrace time.Duration
	// Quiet is how long the shard waits before it lets go of an object on which no work is done any
	// more; see [shard.Config]. Default: 0.
	Quiet time.Duration
	// Balance bounds how many objects a shard has beyond its share, such as 1.25, if there are few;
	// see [sharder.Config]. Default: 0, any.
	Balance float64
	// ScanInterval is how often the sharder scans all objects, and GCPeriod is how long it keeps the
	// Lease of a dead shard; see [sharder.Config]. Default: 5 min and 1 h.
	ScanInterval, GCPeriod time.Duration

	// Scheme has the kinds of the objects. Default: client-go's, without custom resources.
	Scheme *runtime.Scheme
	// Mapper maps resources to kinds. Nil: New asks the API server.
	Mapper meta.RESTMapper
	// Logger is the logger of all parts. Nil: no logs.
	Logger *zap.Logger
	// Events records what the sharder warns of; see [sharder.Config]. Nil: no Events.
	Events events.EventRecorder
	// Hooks are those of the parts, for example for metrics.
	Hooks Hooks
}

// Hooks are the hooks of the parts of a [Replica].
type Hooks struct {
	Lease    shardlease.Hooks
	Shard    shard.Hooks
	Sharder  sharder.Hooks
	Election leaderelection.Hooks // of the sharder
}

// lease returns the configuration of the shard's lease.
func (c Config) lease(config *rest.Config) shardlease.Config {
	return shardlease.Config{
		Namespace: c.Namespace, Ring: c.Ring, Identity: c.Identity, PodUID: c.PodUID, PodName: c.PodName,
		LeaseDuration: c.LeaseDuration, StepDown: c.StepDown, ReleaseTimeout: c.ReleaseTimeout,
		ReturnWithin: c.ReturnWithin, Weight: c.Weight, Version: c.Version, KernelDeadline: c.KernelDeadline,
		Supervisor: c.supervisor(config), OnLost: c.OnLost, Healthy: c.Healthy, Hooks: c.Hooks.Lease, Logger: c.Logger,
	}
}

// election returns the configuration of the election of the replica whose sharder runs. A replica
// that loses it continues as a shard, so its OnLost returns.
func (c Config) election(config *rest.Config) leaderelection.Config {
	log := c.Logger
	if log == nil {
		log = zap.NewNop()
	}
	election := leaderelection.Config{
		Namespace: c.Namespace, Name: c.ElectionName, LeaseDuration: c.LeaseDuration,
		PodUID: c.PodUID, PodName: cmp.Or(c.PodName, c.Identity), Supervisor: c.supervisor(config),
		OnLost: func(err error) { log.Warn("not the sharder any more", zap.Error(err)) },
		Hooks:  c.Hooks.Election, Logger: c.Logger,
	}
	if c.StepDown > 0 {
		// The sharder's Lease may have been renewed up to an interval later. It steps down first
		// because its release, which cannot succeed then, would take until the shard's deadline.
		election.StepDown = c.StepDown + c.renewInterval()
	}
	if c.Identity != "" { // which shard the sharder's process is: an election tells processes apart
		election.Identity = lease.NewIdentity(c.Identity)
	}
	if election.Name == "" && c.Ring != "" {
		election.Name = c.Ring + "-sharder"
	}
	return election
}

func (c Config) supervisor(config *rest.Config) *supervisor.Client {
	if c.Supervisor == nil {
		return nil
	}
	return c.Supervisor.Client(config)
}

func (c Config) renewInterval() time.Duration {
	return lease.Timing{Duration: c.LeaseDuration}.WithDefaults().RenewInterval()
}

// validate returns the rules that c breaks and that are not those of the parts.
func (c Config) validate(config *rest.Config) error {
	var errs []error
	if interval := c.renewInterval(); c.StepDown < 0 || c.StepDown > interval {
		errs = append(errs, fmt.Errorf("replica: StepDown: must be from 0 to the renew interval, %v (got %v)", interval,
			c.StepDown))
	}
	if config == nil {
		errs = append(errs, errors.New("replica: config: must not be nil"))
	}
	return errors.Join(errs...)
}
