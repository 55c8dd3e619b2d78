// Command endpoints is an HTTP server that publishes itself behind a Service without a selector.
// Run any number of copies, wherever clients of the Service reach them.
//
//	go run ./examples/endpoints -addresses 192.0.2.1    # after make playground, or with -kubeconfig ~/.kube/config
//
// On SIGTERM or Ctrl-C it withdraws, keeps answering for a while because clients learn of the
// withdrawal a moment later, and exits with 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	addresses := flag.String("addresses", os.Getenv("POD_IPS"),
		"under which clients reach this server, with commas between")
	listen := flag.String("listen", ":8080", "address to listen on")
	port := flag.Int("port", 8080, "port under which clients reach this server")
	linger := flag.Duration("linger", 5*time.Second, "how long to go on answering after the withdrawal")
	var config endpoints.Config
	flag.StringVar(&config.Namespace, "namespace", "default", "namespace of the Service")
	flag.StringVar(&config.Service, "service", "example-server", "name of the Service, which has no selector")
	flag.StringVar(&config.PodUID, "pod-uid", "",
		"UID of this Pod, by which entries of an earlier process are known; empty: none")
	flag.StringVar(&config.Settings, "settings", "", "name of a ConfigMap with the key expire-duration; empty: none")
	flag.DurationVar(&config.Interval, "interval", 10*time.Second, "time between two heartbeats")
	flag.DurationVar(&config.ExpireAfter, "expire-after", time.Minute,
		"how long another server may be silent before it is removed")
	flag.Parse()
	for text := range strings.SplitSeq(*addresses, ",") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("-addresses: %w", err)
		}
		config.Addresses = append(config.Addresses, address)
	}
	config.Ports = []endpoints.Port{{Name: "http", Number: int32(*port)}}
	config.Logger = zap.Must(zap.NewProduction())
	client, err := newClient(*kubeconfig)
	if err != nil {
		return err
	}
	reconciler, err := endpoints.New(client, config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen) // before it is published
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	publishing, stop := context.WithCancel(ctx)
	go func() {
		defer stop() // a server that cannot serve must not be published
		served <- server.Serve(listener)
	}()
	withdrawn := reconciler.Run(publishing)
	time.Sleep(*linger)
	err = errors.Join(withdrawn, server.Shutdown(context.WithoutCancel(ctx)))
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		return errors.Join(err, failed)
	}
	return err
}

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(endpoints.ClientConfig(config)) // a connection of its own
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// answer is the place for your server.
func answer(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(w, "hello from", os.Getpid())
}
