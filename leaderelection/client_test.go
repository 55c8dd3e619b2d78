package leaderelection_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestLeaseConfigHasItsOwnConnection(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]string{} // protocol by user agent and remote address
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connections[r.UserAgent()+" from "+r.RemoteAddr] = r.Proto
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	workload := &rest.Config{
		Host: server.URL, UserAgent: "workload", Timeout: time.Minute,
		RateLimiter: flowcontrol.NewFakeNeverRateLimiter(),
	}
	workload.Insecure = true
	before := *workload
	leases := leaderelection.LeaseConfig(workload)
	assert.Equal(t, before, *workload, "the caller's config is not touched")
	assert.Zero(t, leases.Timeout, "would cut watches")
	assert.Nil(t, leases.RateLimiter, "renewals do not wait for the workload's limiter")

	workload.RateLimiter = nil
	other := rest.CopyConfig(workload)
	other.UserAgent, leases.UserAgent = "copy", "leases"
	for _, config := range []*rest.Config{workload, other, leases} {
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		_, err = client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		defer client.CoordinationV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	}
	addresses := map[string]string{}
	for key, proto := range connections {
		var agent, address string
		_, err := fmt.Sscanf(key, "%s from %s", &agent, &address)
		require.NoError(t, err)
		addresses[agent] = address
		assert.Equal(t, map[bool]string{true: "HTTP/1.1", false: "HTTP/2.0"}[agent == "leases"], proto)
	}
	assert.Equal(t, addresses["workload"], addresses["copy"], "what a plain copy shares")
	assert.NotEqual(t, addresses["workload"], addresses["leases"])
}
