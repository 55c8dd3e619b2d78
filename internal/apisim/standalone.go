package apisim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Standalone is a server on a loopback port, with the garbage collector, which runs every 100 ms,
// and etcd's compaction, which forgets versions older than five to ten minutes.
type Standalone struct {
	*Server
	address string
	http    *http.Server
	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	collectInterval = 100 * time.Millisecond
	compactInterval = 5 * time.Minute
)

// Listen begins to serve. Close ends it.
func Listen(ctx context.Context, resources ...Resource) (*Standalone, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("apisim: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Standalone{Server: NewServer(resources...), address: listener.Addr().String(), stop: stop}
	s.lot = rand.Uint32() // or processes would share by it what belongs to Pods of two servers on one machine
	s.http = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}
	s.running.Go(func() { _ = s.http.Serve(listener) })
	s.running.Go(func() { s.tidy(ctx) })
	return s, nil
}

func (s *Standalone) tidy(ctx context.Context) {
	collect, compact := time.NewTicker(collectInterval), time.NewTicker(compactInterval)
	defer collect.Stop()
	defer compact.Stop()
	before := int64(birth)
	for {
		select {
		case <-ctx.Done():
			return
		case <-collect.C:
			s.Collect()
		case <-compact.C:
			s.mu.Lock()
			s.data.compact(before)
			before = s.data.version
			s.mu.Unlock()
		}
	}
}

// Close ends all connections.
func (s *Standalone) Close() error {
	s.stop()
	err := s.http.Close()
	s.running.Wait()
	return err
}

// Kubeconfig returns the content of a file for clients of a user.
func (s *Standalone) Kubeconfig(user, namespace string) ([]byte, error) {
	return s.kubeconfig(identity{user: user}, namespace)
}

// KubeconfigOf returns the content of a file for the processes of a Pod.
func (s *Standalone) KubeconfigOf(pod *corev1.Pod) ([]byte, error) {
	return s.kubeconfig(ofPod(pod), pod.Namespace)
}

func (s *Standalone) kubeconfig(i identity, namespace string) ([]byte, error) {
	const name = "in-memory"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: "http://" + s.address + i.path()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	})
}
