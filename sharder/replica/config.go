package replica

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Config of a [Replica]. Lease.Namespace, Lease.Ring and Resources are required, and the same in
// all replicas. The parts have the defaults of their packages; what Lease or Resources says holds
// for all of them, and must be left empty in the others.
type Config struct {
	// Lease is that of the shard. Its LeaseDuration is also that of the sharder, and the default of
	// the election's. Its Logger is the default of the others'.
	Lease shardlease.Config

	// Resources that are distributed.
	Resources []api.Resource

	// Shard lets go of objects. Resources must be empty.
	Shard shard.Config

	// Sharder distributes objects. Namespace, Ring, Resources and LeaseDuration must be empty.
	Sharder sharder.Config

	// Election says whose sharder is at work. Namespace must be empty. Name is by default the name
	// of the ring with "-sharder" after it. OnLost is by default a warning in the log: the process
	// goes on as a shard. For the same reason KernelDeadline must not be set.
	Election leaderelection.Config

	// Mapper tells the kinds of the resources. Nil: the API server is asked, by New.
	Mapper meta.RESTMapper
}

// withDefaults returns c with those of its zero fields set that follow from others.
func (c Config) withDefaults() Config {
	c.Shard.Resources = c.Resources
	c.Sharder.Resources = c.Resources
	c.Sharder.Namespace, c.Sharder.Ring, c.Sharder.LeaseDuration = c.Lease.Namespace, c.Lease.Ring,
		c.Lease.LeaseDuration
	c.Election.Namespace = c.Lease.Namespace
	if c.Election.Name == "" && c.Lease.Ring != "" {
		c.Election.Name = c.Lease.Ring + "-sharder"
	}
	if c.Election.LeaseDuration == 0 {
		c.Election.LeaseDuration = c.Lease.LeaseDuration
	}
	for _, logger := range []**zap.Logger{&c.Shard.Logger, &c.Sharder.Logger, &c.Election.Logger} {
		if *logger == nil {
			*logger = c.Lease.Logger
		}
	}
	if c.Election.OnLost == nil {
		log := c.Election.Logger
		if log == nil {
			log = zap.NewNop()
		}
		c.Election.OnLost = func(err error) { log.Warn("not the sharder any more", zap.Error(err)) }
	}
	return c
}

// validate returns the rules that c breaks before its defaults are set, besides those of its parts.
func (c Config) validate(config *rest.Config) error {
	var errs []error
	if config == nil {
		errs = append(errs, errors.New("replica: config: must not be nil"))
	}
	empty := func(field, of string, is bool, got any) {
		if !is {
			errs = append(errs,
				fmt.Errorf("replica: %s: must be empty, because it is that of %s (got %v)", field, of, got))
		}
	}
	empty("Shard.Resources", "Resources", len(c.Shard.Resources) == 0, len(c.Shard.Resources))
	empty("Sharder.Resources", "Resources", len(c.Sharder.Resources) == 0, len(c.Sharder.Resources))
	empty("Sharder.Namespace", "Lease", c.Sharder.Namespace == "", c.Sharder.Namespace)
	empty("Sharder.Ring", "Lease", c.Sharder.Ring == "", c.Sharder.Ring)
	empty("Sharder.LeaseDuration", "Lease", c.Sharder.LeaseDuration == 0, c.Sharder.LeaseDuration)
	empty("Election.Namespace", "Lease", c.Election.Namespace == "", c.Election.Namespace)
	if c.Election.KernelDeadline {
		errs = append(errs, errors.New("replica: Election.KernelDeadline: must not be set, because who loses the "+
			"election works on as a shard (got true)"))
	}
	return errors.Join(errs...)
}
