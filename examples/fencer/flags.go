package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// options are the values of the flags.
type options struct {
	kubeconfig, dumps, health string
	assess                    bool
	fencer                    fencing.Config
	election                  leaderelection.Config
	agents                    agents
}

func parse() (options, error) {
	o := options{fencer: fencing.Config{StrictSecrets: true}, election: leaderelection.Config{Name: "fencer"}}
	namespace := flag.String("namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Lease and of the configuration")
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	flag.BoolVar(&o.assess, "assess", false,
		"say of each node whether it would be fenced now, and why not, and change nothing")
	flag.StringVar(&o.dumps, "kdump", "",
		"where kernels of nodes with kdump=yes say that they write a dump, such as :7410; empty: such nodes are "+
			"refused")
	flag.StringVar(&o.health, "health-address", "", "address for /livez, /readyz and /metrics; empty: none")
	f, l := &o.fencer, &o.fencer.Limits
	flag.StringVar(&f.Node, "node", os.Getenv("NODE_NAME"), "node that this process runs on, which it never fences")
	flag.BoolVar(&f.OutsideCluster, "outside-cluster", false, "this process runs on no node of the cluster")
	flag.BoolVar(&f.RequireCommissioned, "require-commissioned", false,
		"fence only nodes whose devices were proved to be their own")
	flag.BoolVar(&f.OnlyConfigured, "only-configured", false, "leave nodes alone that have no configuration")
	flag.StringVar(&f.TypeLabel, "type-label", "type", "label of nodes that selects the configuration of a type")
	flag.IntVar(&f.ChecksAtOnce, "checks-at-once", 4,
		"how many agents read devices at the same time while nothing is wrong")
	flag.DurationVar(&f.CheckInterval, "check-interval", 5*time.Minute,
		"how often devices are read while nothing is wrong")
	flag.DurationVar(&f.CommandTimeout, "command-timeout", 30*time.Second, "how long an agent may take; whole seconds")
	flag.Func("storage",
		"METHOD=DRIVER[,DRIVER...]: CSI drivers that a node cannot reach once this method of its isolation is done; "+
			"may be repeated", o.storage)
	flag.DurationVar(&l.Observation, "observation", 40*time.Second, "how long a new leader watches before it fences")
	flag.IntVar(&l.MaxConcurrent, "max-concurrent", 1, "how many machines may be off at the same time")
	flag.IntVar(&l.MaxStarts, "max-starts", 10, "how many fences may begin within -start-window")
	flag.DurationVar(&l.StartWindow, "start-window", time.Hour, "see -max-starts")
	flag.IntVar(&l.StormPercent, "storm-percent", 50, "share of unhealthy nodes from which on nothing is fenced")
	flag.DurationVar(&l.CoolDown, "cool-down", 5*time.Minute,
		"how long the share has to be below that before fencing continues")
	flag.IntVar(&l.PodsPerMinute, "pods-per-minute", 0, "how many pods may be deleted per minute; 0: no limit")
	flag.DurationVar(&o.election.LeaseDuration, "lease-duration", 15*time.Second,
		"how long a leader stays one without renewal")
	flag.BoolVar(&o.election.KernelDeadline, "kernel-deadline", false,
		"have the kernel kill a leader that is stopped past its deadline")
	o.agents.flags()
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("fencer: no arguments are taken but flags (got %q)", flag.Args())
	}
	o.election.Namespace, f.Namespace = *namespace, *namespace
	l.APISilence = o.election.LeaseDuration
	return o, nil
}

// storage parses one -storage flag.
func (o *options) storage(value string) error {
	method, drivers, _ := strings.Cut(value, "=")
	if method == "" || drivers == "" {
		return fmt.Errorf("must be METHOD=DRIVER[,DRIVER...] (got %q)", value)
	}
	if o.fencer.Storage == nil {
		o.fencer.Storage = map[string]api.Storage{}
	}
	o.fencer.Storage[method] = api.Storage{Drivers: strings.Split(drivers, ",")}
	return nil
}
