// Command controller has all ConfigMaps of a namespace in a cache, and works while it leads. It is
// elected by this module's elector or by client-go's. It prints what happens:
//
//	ready        it contends, with a cache that has synced, unless caches are of a term
//	works <t> <n>  a term's work has its first look at the cache, which shows the write n
//	ended <t> <n>  the work has ended. Of its writes, n is the last that was acknowledged
//
// Times are in nanoseconds, by the clock of the machine. SIGUSR1 ends the term. The next one has the
// process contend again.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/fresh"
)

// controller is what both electors need.
type controller struct {
	config, cached             *rest.Config // cached: of caches
	elector                    string
	namespace, lease, identity string
	writes                     bool
}

// ours is the name of this module's elector.
const ours = "bellwether"

// contend contends, and works while it leads, until the context has ended and the work with it.
type contend func(context.Context) error

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var c controller
	kubeconfig := flag.String("kubeconfig", "", "path")
	cached := flag.String("cache-kubeconfig", "", "path, of caches; empty: as of everything else")
	flag.StringVar(&c.elector, "elector", "", ours+", client-go, or client-go-warm: with caches of the process")
	flag.StringVar(&c.namespace, "namespace", "", "of the Lease and the ConfigMaps")
	flag.StringVar(&c.lease, "lease", "", "name of the Lease, and of the ConfigMap to write to")
	flag.StringVar(&c.identity, "identity", "", "of this replica")
	flag.BoolVar(&c.writes, "writes", false, "write all the time, not once a term")
	flag.Parse()

	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return err
	}
	if c.cached, err = clientcmd.BuildConfigFromFlags("", cmp.Or(*cached, *kubeconfig)); err != nil {
		return err
	}
	var contend contend
	switch c.elector {
	case ours:
		contend, err = c.bellwether(ctx)
	case "client-go":
		contend, err = c.clientGo()
	case "client-go-warm":
		contend, err = c.warmClientGo(ctx)
	default:
		err = fmt.Errorf("no elector %q", c.elector)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return takeTurns(ctx, contend)
}

// takeTurns contends until it gets a SIGUSR1, and again after the next one.
func takeTurns(ctx context.Context, contend contend) error {
	turn := make(chan os.Signal, 1)
	signal.Notify(turn, syscall.SIGUSR1)
	for ctx.Err() == nil {
		contending, end := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- contend(contending) }()
		select {
		case <-turn:
		case <-ctx.Done():
		case err := <-result:
			end()
			return err
		}
		end()
		if err := <-result; err != nil {
			return err
		}
		select {
		case <-turn:
		case <-ctx.Done():
		}
	}
	return nil
}

// cache returns one of all ConfigMaps. It has not been started.
func (c *controller) cache() (fresh.Cache, error) {
	client, err := kubernetes.NewForConfig(c.cached)
	if err != nil {
		return fresh.Cache{}, err
	}
	source := cache.ListerWatcher(fresh.Source(client.CoreV1().ConfigMaps(c.namespace)))
	if c.elector == ours {
		source = fresh.NewRelister(source)
	}
	return fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: source,
		Informer: cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}),
	}, nil
}
