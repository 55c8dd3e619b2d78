package replica

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

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
	// Ring is the name of the ring, a DNS-1123 label. The Lease of the sharder's election has this
	// name with "-sharder" appended.
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
	// KernelDeadline makes the kernel kill this process if it is stopped past the deadline of its
	// lease. Linux only; see [shardlease.Config].
	KernelDeadline bool

	// Supervisor releases the Leases of this process when it has died. Call supervisor.Start first
	// in main; see [shardlease.Config]. Default: none, the Leases expire.
	Supervisor *supervisor.Supervisor

	// Scheme has the kinds of the objects. Default: client-go's, without custom resources.
	Scheme *runtime.Scheme
	// Mapper maps resources to kinds. Nil: New asks the API server.
	Mapper meta.RESTMapper
	// Logger is the logger of all parts. Nil: no logs.
	Logger *zap.Logger

	// Tune changes the configurations of the parts, for example their hooks. It must not change
	// what this Config sets. Nil: no changes.
	Tune func(*Parts)
}

// Parts are the configurations of the parts of a [Replica], as [Config] determines them.
type Parts struct {
	Lease   shardlease.Config
	Shard   shard.Config
	Sharder sharder.Config
	// Election elects the replica whose sharder runs. Its OnLost logs a warning, because a replica
	// that loses the election continues as a shard. For the same reason KernelDeadline must not be
	// set.
	Election leaderelection.Config
}

// parts returns the configurations of the parts, or an error for each rule that c breaks.
func (c Config) parts(config *rest.Config) (Parts, error) {
	log := c.Logger
	if log == nil {
		log = zap.NewNop()
	}
	fixed := Parts{
		Lease: shardlease.Config{
			Namespace: c.Namespace, Ring: c.Ring, Identity: c.Identity, PodUID: c.PodUID, PodName: c.PodName,
			LeaseDuration: c.LeaseDuration, StepDown: c.StepDown, ReleaseTimeout: c.ReleaseTimeout,
			ReturnWithin: c.ReturnWithin, KernelDeadline: c.KernelDeadline, Logger: c.Logger,
		},
		Shard: shard.Config{Resources: c.Resources, Scheme: c.Scheme, Logger: c.Logger},
		Sharder: sharder.Config{
			Namespace: c.Namespace, Ring: c.Ring, Resources: c.Resources, LeaseDuration: c.LeaseDuration,
			Logger: c.Logger,
		},
		Election: leaderelection.Config{
			Namespace: c.Namespace, LeaseDuration: c.LeaseDuration, Logger: c.Logger,
			PodUID: c.PodUID, PodName: cmp.Or(c.PodName, c.Identity),
			OnLost: func(err error) { log.Warn("not the sharder any more", zap.Error(err)) },
		},
	}
	if c.Supervisor != nil {
		fixed.Lease.Supervisor = c.Supervisor.Client(config)
		fixed.Election.Supervisor = c.Supervisor.Client(config)
	}
	interval := lease.Timing{Duration: c.LeaseDuration}.WithDefaults().RenewInterval()
	if c.StepDown > 0 {
		// The sharder's Lease may have been renewed up to an interval later. It steps down first
		// because its release, which cannot succeed then, would take until the shard's deadline.
		fixed.Election.StepDown = c.StepDown + interval
	}
	if c.Identity != "" { // which shard the sharder's process is: an election tells processes apart
		fixed.Election.Identity = c.Identity + "_" + strings.ReplaceAll(string(uuid.NewUUID()), "-", "")
	}
	if c.Ring != "" {
		fixed.Election.Name = c.Ring + "-sharder"
	}
	parts := fixed
	if c.Tune != nil {
		c.Tune(&parts)
	}
	var errs []error
	if c.StepDown < 0 || c.StepDown > interval {
		errs = append(errs, fmt.Errorf("replica: StepDown: must be from 0 to the renew interval, %v (got %v)", interval,
			c.StepDown))
	}
	if config == nil {
		errs = append(errs, errors.New("replica: config: must not be nil"))
	}
	for _, f := range []struct {
		field    string
		is, want any
	}{
		{"Lease.Namespace", parts.Lease.Namespace, fixed.Lease.Namespace},
		{"Lease.Ring", parts.Lease.Ring, fixed.Lease.Ring},
		{"Lease.LeaseDuration", parts.Lease.LeaseDuration, fixed.Lease.LeaseDuration},
		{"Shard.Resources", parts.Shard.Resources, fixed.Shard.Resources},
		{"Sharder.Resources", parts.Sharder.Resources, fixed.Sharder.Resources},
		{"Sharder.Namespace", parts.Sharder.Namespace, fixed.Sharder.Namespace},
		{"Sharder.Ring", parts.Sharder.Ring, fixed.Sharder.Ring},
		{"Sharder.LeaseDuration", parts.Sharder.LeaseDuration, fixed.Sharder.LeaseDuration},
		{"Election.Namespace", parts.Election.Namespace, fixed.Election.Namespace},
	} {
		if !same(f.is, f.want) {
			errs = append(errs,
				fmt.Errorf("replica: Tune: %s: must stay %v, as Config says (got %v)", f.field, f.want, f.is))
		}
	}
	if parts.Election.KernelDeadline {
		errs = append(errs, errors.New("replica: Tune: Election.KernelDeadline: must not be set, because a replica "+
			"that loses the election continues as a shard (got true)"))
	}
	return parts, errors.Join(errs...)
}

// same reports whether a field is unchanged. Resources must be the same slice, because they have
// functions, which cannot be compared.
func same(is, want any) bool {
	a, aIs := is.([]api.Resource)
	b, bIs := want.([]api.Resource)
	if aIs && bIs {
		return len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	return is == want
}
