// Command daemon is examples/leaderforlife and examples/endpoints, with metrics. Every copy publishes
// itself behind a Service, and one of them leads.
package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/endpoints"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
	"github.com/bellwether-k8s/bellwether/metrics"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logs := zap.NewProductionConfig()
	logs.OutputPaths = []string{"stdout"}
	log := zap.Must(logs.Build())
	if err := run(ctx, log); err != nil {
		log.Fatal("not the leader", zap.Error(err))
	}
}

func run(ctx context.Context, log *zap.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(os.Getenv("POD_IP"))
	if err != nil {
		return err
	}
	namespace, registry := os.Getenv("POD_NAMESPACE"), prometheus.NewRegistry()
	publication := endpoints.Config{
		Namespace: namespace, Service: "daemon", Addresses: []netip.Addr{address},
		Ports: []endpoints.Port{{Name: "http", Number: 80}}, Interval: time.Second, ExpireAfter: 10 * time.Second,
		Logger: log,
	}
	hooks, err := metrics.LeaderForLife(registry)
	if err == nil {
		publication.Hooks, err = metrics.Endpoints(registry)
	}
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	published, err := endpoints.New(client, publication)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log.Info("answering probes", zap.Stringer("address", listener.Addr()))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- published.Run(ctx) }()
	err = leader.Become(ctx, "daemon", leader.WithConfig(config), leader.WithNamespace(namespace),
		leader.WithHooks(hooks), leader.WithLogger(log))
	if err != nil {
		return err
	}
	return <-withdrawn
}
