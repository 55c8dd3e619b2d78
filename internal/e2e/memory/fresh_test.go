package memory_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// lag is how late caches are: much later than a leader that ends is succeeded.
const lag = time.Second

// lateKubeconfig is of clients whose watches are late.
func (c *cluster) lateKubeconfig() string {
	c.t.Helper()
	content, err := c.server.Kubeconfig("process", namespace)
	require.NoError(c.t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	require.NoError(c.t, err)
	server, err := url.Parse(config.Host)
	require.NoError(c.t, err)
	transport := &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: server.Scheme, Host: server.Host})
		},
		Transport:     e2e.LateWatches(func() time.Duration { return lag })(transport),
		FlushInterval: -1,
	})
	c.t.Cleanup(func() {
		_ = c.group.Close() // its clients
		proxy.CloseClientConnections()
		proxy.Close()
		transport.CloseIdleConnections()
	})
	return c.write("kubeconfig-late",
		[]byte(strings.ReplaceAll(string(content), "http://"+server.Host, proxy.URL)))
}

// The caches of a new leader have what the one before wrote, and was told that it is written, although
// they hear of everything late.
func TestFresh(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	configMaps := c.client.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "turns"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	late := c.lateKubeconfig()
	type event struct {
		what string
		n    int // of writes
	}
	controller := func(name string) (*e2e.Process, func(what string) int) {
		events := make(chan event, 100)
		p := c.start("controller", e2e.Command{
			Name: name, OnLine: func(line string) {
				var e event
				var at int64
				_, _ = fmt.Sscan(line, &e.what, &at, &e.n)
				events <- e
			},
			Args: []string{
				"-kubeconfig", c.kubeconfig, "-cache-kubeconfig", late, "-namespace", namespace, "-lease", "turns",
				"-identity", name, "-elector", "bellwether",
			},
		})
		return p, func(what string) int {
			t.Helper()
			e := next(c, events, name+" "+what)
			require.Equal(t, what, e.what)
			return e.n
		}
	}
	leader, heard := controller("a")
	heard("ready")
	assert.Zero(t, heard("works"))
	candidate, heardNext := controller("b")
	heardNext("ready")
	for turn := range 2 {
		c.eventually(func() bool {
			m, err := configMaps.Get(t.Context(), "turns", metav1.GetOptions{})
			return err == nil && m.Data["n"] == fmt.Sprint(turn+1)
		}, "the leader writes")
		require.NoError(t, leader.Signal(syscall.SIGUSR1))
		written := heard("ended")
		assert.GreaterOrEqual(t, heardNext("works"), written, "a new leader does not see what the one before wrote")
		require.NoError(t, leader.Signal(syscall.SIGUSR1)) // it contends again
		leader, candidate, heard, heardNext = candidate, leader, heardNext, heard
	}
}
