package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/command"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	configMaps = view.Kind{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		Kind:                 corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), Namespaced: true,
	}
	pods = view.Kind{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Kind:                 corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), Namespaced: true,
	}
)

// world is an API server in memory with real replicas of a ring and an election, in a bubble of
// testing/synctest, and the plugin beside them.
type world struct {
	t      *testing.T
	server *apisim.Server
	kube   kubernetes.Interface
	mapper *meta.DefaultRESTMapper

	running []func()
	paused  []*apisim.Client

	// forbidden are the requests that the user of the plugin may not send: "list configmaps", and
	// "list configmaps ns" in one namespace only.
	forbidden map[string]bool
	// ahead is how far the clock of the plugin's machine is ahead of the others, as far as it shows.
	ahead time.Duration
	// before is called before each request of the plugin.
	before func(*http.Request)
	// odd answers requests of the plugin. Nil: the server does.
	odd apisim.Oddity

	mu sync.Mutex
	// writes are the requests of the plugin that were not reads.
	writes []string
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, forbidden: map[string]bool{},
			server: apisim.NewServer(apisim.Resource{
				GroupVersionResource: v1alpha1.Resource(), Kind: "NodeFence", Status: true,
			}, apisim.Resource{
				GroupVersionResource: flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"), Kind: "FlowSchema",
			}),
		}
		var err error
		w.kube, err = kubernetes.NewForConfig(w.server.Client("user").Config())
		require.NoError(t, err)
		w.mapper = meta.NewDefaultRESTMapper(nil)
		w.mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		w.mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		defer func() {
			for _, c := range w.paused {
				c.Resume()
			}
			for _, stop := range w.running {
				stop()
			}
		}()
		f(t, w)
	})
}

// refusing refuses what the user of the plugin may not do, as an API server does.
func (w *world) refusing(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		verb, resource, namespace := describe(r)
		if w.before != nil {
			w.before(r)
		}
		if verb != "get" && verb != "list" && verb != "watch" {
			w.mu.Lock()
			w.writes = append(w.writes, verb+" "+r.URL.Path)
			w.mu.Unlock()
		}
		if w.odd != nil {
			if answer := w.odd(r); answer != nil {
				return answer, nil
			}
		}
		if w.forbidden[verb+" "+resource] || w.forbidden[verb+" "+resource+" "+namespace] {
			status, _ := json.Marshal(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 403,
				Reason: metav1.StatusReasonForbidden, Message: resource + ` is forbidden: User "u" cannot ` + verb +
					` resource "` + resource + `" in API group ""`,
			})
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewReader(status)), Request: r,
			}, nil
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// describe returns what a request needs a right for.
func describe(r *http.Request) (verb, resource, namespace string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[2:] // api/v1
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	verb = map[string]string{
		"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get",
	}[r.Method]
	if verb == "get" && len(parts) == 1 {
		verb = "list"
		if r.URL.Query().Has("watch") {
			verb = "watch"
		}
	}
	return verb, parts[0], namespace
}

// kubectl runs the plugin and returns what it prints and its error.
func (w *world) kubectl(args ...string) (out string, err error) {
	w.t.Helper()
	var b bytes.Buffer
	err = w.run(w.t.Context(), &b, args...)
	return b.String(), err
}

// separately runs the plugin and returns what it prints for programs and for people.
func (w *world) separately(args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	e := w.environment(&stdout)
	e.ErrOut = &stderr
	root := command.New(e)
	root.SetArgs(args)
	err = root.ExecuteContext(w.t.Context())
	return stdout.String(), stderr.String(), err
}

func (w *world) run(ctx context.Context, out io.Writer, args ...string) error {
	root := command.New(w.environment(out))
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

func (w *world) environment(out io.Writer) command.Environment {
	return command.Environment{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
		Connect: func() (command.Connection, error) {
			config := w.server.Client("plugin").Config()
			config.Wrap(w.refusing)
			c, err := cluster.New(config, w.mapper, nil)
			if err != nil {
				return command.Connection{}, err
			}
			c.Listable = func() ([]view.Kind, error) { return []view.Kind{configMaps, pods}, nil }
			c.Now = func() time.Time { return time.Now().Add(w.ahead) }
			c.Review = func(_ context.Context, rights []cluster.Right) (missing []cluster.Right, err error) {
				for _, r := range rights {
					if w.forbidden[r.Verb+" "+r.Resource.Resource] {
						missing = append(missing, r)
					}
				}
				return missing, nil
			}
			return command.Connection{Cluster: c, Config: config, Namespace: "ns"}, nil
		},
	}
}

// require runs the plugin, which must succeed, and returns what it prints.
func (w *world) require(args ...string) string {
	w.t.Helper()
	out, err := w.kubectl(args...)
	require.NoError(w.t, err, out)
	return out
}

// configMaps creates this many ConfigMaps of the ring.
func (w *world) configMaps(n int) {
	for i := range n {
		w.configMap(fmt.Sprintf("x%d", i))
	}
}

func (w *world) configMap(name string) {
	_, err := w.kube.CoreV1().ConfigMaps("ns").Create(w.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// shardOf is a running replica of ring "checksums".
type shardOf struct {
	world  *world
	client *apisim.Client
	stop   func() // releases its leases
}

// replica starts a replica. work is called for each of its objects.
func (w *world) replica(name string, work func(ctx context.Context, object string)) *shardOf {
	w.t.Helper()
	return w.replicaOf(shardlease.Config{Identity: name}, work)
}

// replicaOf starts a replica with this configuration of its lease.
func (w *world) replicaOf(c shardlease.Config, work func(ctx context.Context, object string)) *shardOf {
	w.t.Helper()
	name := c.Identity
	s := &shardOf{client: w.server.Client(name)}
	const namespace, ring = "ns", "checksums"
	resources := []api.Resource{{GVR: configMaps.GroupVersionResource}}
	leases := kubernetes.NewForConfigOrDie(shardlease.LeaseConfig(s.client.Config()))
	c.Namespace, c.Ring, c.OnLost = namespace, ring, func(error) {}
	lease, err := shardlease.New(leases, c)
	require.NoError(w.t, err)
	elector, err := leaderelection.New(leases, leaderelection.Config{ // with an identity that tests can predict
		Namespace: namespace, Name: ring + "-sharder", Identity: name, OnLost: func(error) {},
	})
	require.NoError(w.t, err)
	mine, everyones := s.client.Config(), s.client.Config()
	mine.Wrap(lease.WrapTransport)
	everyones.Wrap(elector.WrapTransport)
	client := kubernetes.NewForConfigOrDie(mine)
	r := &replica.Replica{Lease: lease, Elector: elector}
	r.Shard, err = shard.New(metadata.NewForConfigOrDie(mine), w.mapper, lease, shard.Config{Resources: resources})
	require.NoError(w.t, err)
	r.Sharder, err = sharder.New(kubernetes.NewForConfigOrDie(everyones), metadata.NewForConfigOrDie(everyones),
		w.mapper, sharder.Config{Namespace: namespace, Ring: ring, Resources: resources})
	require.NoError(w.t, err)
	s.world = w
	s.stop = w.begin(func(ctx context.Context) {
		_ = r.Run(ctx, func(ctx context.Context) error {
			informer := r.Shard.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client),
				&corev1.ConfigMap{}, 0, cache.Indexers{})
			return shard.RunController(ctx, r.Shard, informer, 4, func(ctx context.Context, m *corev1.ConfigMap) error {
				if work != nil {
					work(ctx, m.Name)
				}
				return nil
			})
		}, nil)
	})
	return s
}

// elect starts a candidate of the election "daemon".
func (w *world) elect(name string) (stop func()) {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(w.server.Client(name).Config()))
	require.NoError(w.t, err)
	e, err := leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "daemon", Identity: name, OnLost: func(error) {},
	})
	require.NoError(w.t, err)
	return w.begin(func(ctx context.Context) {
		_ = e.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	})
}

// pause cuts the replica off, as if its process had stopped.
func (s *shardOf) pause() {
	s.client.Pause()
	s.world.paused = append(s.world.paused, s.client)
}

func (w *world) begin(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.running = append(w.running, stop)
	return stop
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
