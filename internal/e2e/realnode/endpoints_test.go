//go:build linux

package realnode_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// servers is examples/endpoints, with clients on nodes that send requests all the time.
type servers struct {
	*app
	url string

	mu       sync.Mutex
	requests []request
}

type request struct {
	from  string
	begun time.Time
	err   error
}

// deployServers deploys the example, and waits until the Service answers on all nodes.
func deployServers(t testing.TB) *servers {
	t.Helper()
	s := &servers{app: deploy(t, "endpoints/rbac.yaml", "endpoints/service.yaml", "endpoints/deployment.yaml")}
	services := cluster.Client.CoreV1().Services(s.namespace)
	service, err := services.Get(t.Context(), "example-server", metav1.GetOptions{})
	require.NoError(t, err)
	s.url = fmt.Sprintf("http://%s/", service.Spec.ClusterIP)
	s.eventually("three servers are published", func() bool { return s.published() == 3 })
	for _, name := range nodes {
		s.eventually("the Service answers on "+name,
			func() bool { return s.ask(cluster.Node(name)) == nil })
	}
	return s
}

// published is how many addresses the Service has.
func (s *servers) published() (n int) {
	slices, err := cluster.Client.DiscoveryV1().EndpointSlices(s.namespace).List(s.t.Context(), metav1.ListOptions{
		LabelSelector: labels.Set{"kubernetes.io/service-name": "example-server"}.String(),
	})
	require.NoError(s.t, err)
	for _, slice := range slices.Items {
		n += len(slice.Endpoints)
	}
	return n
}

// ask sends one request from a node, on a connection of its own.
func (s *servers) ask(from *realnode.Node) error {
	client := &http.Client{
		Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true},
		Timeout:   10 * time.Second, // a SYN that is lost is sent again after 1 s, and 2 s later
	}
	response, err := client.Get(s.url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return err
}

// clients send requests from nodes until ctx ends.
func (s *servers) clients(ctx context.Context, nodes ...string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	for _, name := range nodes {
		sending.Go(func() {
			for ctx.Err() == nil {
				r := request{from: name, begun: time.Now()}
				r.err = s.ask(cluster.Node(name))
				s.mu.Lock()
				s.requests = append(s.requests, r)
				s.mu.Unlock()
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		sending.Wait()
	}
}

// failures are the requests since a time that had no answer.
func (s *servers) failures(since time.Time) (all int, failed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.begun.Before(since) {
			continue
		}
		if all++; r.err != nil {
			failed = append(failed, fmt.Sprintf("%s from %s: %v", r.begun.Format("15:04:05.000"), r.from, r.err))
		}
	}
	return all, failed
}

// A server withdraws before it ends, so a rolling update fails no request.
func TestRollOutOfServersFailsNoRequest(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	s := deployServers(t)
	stop := s.clients(t.Context(), nodes...)
	defer stop()
	old := s.pods()
	_, err := cluster.Client.AppsV1().Deployments(s.namespace).Patch(t.Context(), "example-server",
		types.StrategicMergePatchType, []byte(`{"spec": {"template": {"metadata": {"labels": {"again": "yes"}}}}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	s.eventually("the old servers have ended", func() bool {
		return !slices.ContainsFunc(old, s.alive)
	})
	stop()
	all, failed := s.failures(time.Time{})
	assert.Empty(t, failed)
	t.Logf("%d requests", all)
}
