// Command replica publishes an instance that serves nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config := endpoints.Config{Logger: zap.Must(zap.NewDevelopment())}
	flag.StringVar(&config.Namespace, "namespace", "", "of the Service")
	flag.StringVar(&config.Service, "service", "web", "the Service")
	flag.DurationVar(&config.Interval, "interval", 0, "between heartbeats")
	flag.DurationVar(&config.ExpireAfter, "expire-after", 0, "until others are removed")
	flag.StringVar(&config.Settings, "settings", "", "name of the ConfigMap with the run-time setting")
	flag.BoolVar(&config.PublishEndpoints, "publish-endpoints", false, "also publish Endpoints")
	flag.StringVar(&config.PodUID, "incarnation", "", "UID of the Pod")
	kubeconfig := flag.String("kubeconfig", "", "path")
	leases := flag.Bool("leases", false, "register by Leases")
	addresses := flag.String("addresses", "", "of this instance, with commas between")
	ports := flag.String("ports", "https:443", "of this instance, as name:number, with commas between")
	flag.Parse()
	if *leases {
		config.Store = endpoints.LeaseStore{}
	}
	for text := range strings.SplitSeq(*addresses, ",") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		config.Addresses = append(config.Addresses, address)
	}
	for text := range strings.SplitSeq(*ports, ",") {
		name, number, _ := strings.Cut(text, ":")
		port, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return err
		}
		config.Ports = append(config.Ports, endpoints.Port{Name: name, Number: int32(port)})
	}
	rc, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	rc.QPS, rc.WarningHandler = -1, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	reconciler, err := endpoints.New(client, config)
	if err != nil {
		return err
	}
	return reconciler.Run(ctx)
}
