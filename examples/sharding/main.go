// Command sharding is a controller that writes the checksum of each ConfigMap with the label
// checksum=wanted into an annotation. Run any number of copies, each with its own identity; every
// copy works on its own share of the objects.
//
//	go run ./examples/sharding -identity a -journal    # after make playground, or with -kubeconfig ~/.kube/config
//
// It exits with 75 when it loses its shard lease. On SIGTERM or Ctrl-C it ends its work and exits
// with 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Leases if this process is killed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parent); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parent *supervisor.Supervisor) error {
	c := replica.Config{Supervisor: parent}
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	flag.StringVar(&c.Namespace, "namespace", "default", "namespace of the ConfigMaps and of the Leases")
	flag.StringVar(&c.Ring, "ring", "checksums", "what all copies have in common")
	flag.StringVar(&c.Identity, "identity", "", "name of this shard, the same after a restart; empty: hostname")
	claim := flag.Bool("claim-name", false, "take the first free name of <ring>-0, <ring>-1, …, and the objects of "+
		"who had it before; not with -identity")
	flag.DurationVar(&c.ReturnWithin, "return-within", 0,
		"how long objects wait for a name that was released; 0: not, or 30s with -claim-name")
	c.Weight = flag.Int("weight", shardlease.DefaultWeight, "how many objects this shard gets, compared with others")
	flag.StringVar(&c.Version, "version", "", "what kubectl bellwether ring shows as the version of this copy")
	flag.StringVar(&c.PodUID, "pod-uid", "",
		"UID of this Pod, so that a restarted container need not wait; empty: none")
	flag.DurationVar(&c.LeaseDuration, "lease-duration", 15*time.Second,
		"how long a shard stays one without renewal; dead after twice that")
	flag.BoolVar(&c.KernelDeadline, "kernel-deadline", false,
		"have the kernel kill a shard that is stopped past its deadline")
	flag.DurationVar(&c.ReleaseTimeout, "release-timeout", 20*time.Second, "how long work may take to end")
	address := flag.String("health-address", "", "address for /livez and /readyz; empty: none")
	var work checksums
	work.addFlags()
	flag.Parse()

	log, err := newLogger()
	if err != nil {
		return err
	}
	c.Logger, work.log = log, log
	config, err := clientConfig(*kubeconfig)
	if err != nil {
		return err
	}
	c.Resources = []api.Resource{{GVR: configMaps, Selector: wanted, Namespaces: []string{c.Namespace}}}
	// The kinds are known here. So a replica that starts while the API server is down waits instead
	// of failing.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c.Mapper = mapper
	var health health
	stopHealth, err := health.serve(*address)
	if err != nil {
		return err
	}
	defer stopHealth()
	r, err := newReplica(ctx, config, c, *claim)
	if err != nil {
		return err
	}
	health.replica.Store(r)
	work.shard, work.namespace = r.Shard, c.Namespace
	if work.client, err = kubernetes.NewForConfig(r.ShardConfig); err != nil {
		return err
	}
	return r.Run(ctx, work.run, nil)
}

func newReplica(ctx context.Context, config *rest.Config, c replica.Config, claim bool) (*replica.Replica, error) {
	if claim {
		return replica.Claim(ctx, config, c)
	}
	return replica.New(config, c)
}

func clientConfig(kubeconfig string) (config *rest.Config, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // client-go's default is 5 requests per second
	return config, nil
}
