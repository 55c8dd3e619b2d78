package command_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// docs has the pages that show what commands print. With BELLWETHER_UPDATE=1 their blocks are written again.
const docs = "../../../../docs/"

// recent is an age that depends on when a Lease was renewed last.
var recent = regexp.MustCompile(`\b[0-4]s\b`)

// Each block of the pages is what the command prints, in scenes that are played here with real
// replicas.
func TestTheDocumentationShowsWhatIsPrinted(t *testing.T) {
	for page, play := range map[string]func(w *world, show func(commands ...string)){
		"kubectl.md": (*world).playScenes, "operating.md": (*world).playCanary,
	} {
		t.Run(page, func(t *testing.T) {
			printed := map[string]string{}
			inWorld(t, func(_ *testing.T, w *world) {
				play(w, func(commands ...string) {
					for _, c := range commands {
						out, err := w.kubectl(strings.Fields(c)...)
						if err != nil {
							out += err.Error() + "\n"
						}
						printed[c] = out
					}
				})
			})
			requireShown(t, docs+page, printed)
		})
	}
}

// requireShown compares the blocks of a page with what the commands in them have printed.
func requireShown(t *testing.T, path string, printed map[string]string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var page strings.Builder
	seen := map[string]bool{}
	text := string(content)
	for {
		before, rest, found := strings.Cut(text, "\n```\n$ kubectl bellwether ")
		page.WriteString(before)
		if !found {
			break
		}
		command, rest, _ := strings.Cut(rest, "\n")
		shown, after, _ := strings.Cut(rest, "```\n")
		out, ok := printed[command]
		seen[command] = true
		if assert.True(t, ok, "no scene has %s", command) && os.Getenv("BELLWETHER_UPDATE") == "" {
			assert.Equal(t, recent.ReplaceAllString(out, "Ns"), recent.ReplaceAllString(shown, "Ns"),
				"%s: BELLWETHER_UPDATE=1 writes the page again", command)
		}
		fmt.Fprintf(&page, "\n```\n$ kubectl bellwether %s\n%s```\n", command, out)
		text = after
	}
	for command := range printed {
		assert.True(t, seen[command], "the page does not show %s", command)
	}
	if os.Getenv("BELLWETHER_UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(page.String()), 0o644))
	}
}

// playCanary calls show with what an operator does who tries a new version in a ring.
func (w *world) playCanary(show func(commands ...string)) {
	w.configMaps(400)
	for i := range 3 {
		w.replicaOf(shardlease.Config{Identity: fmt.Sprint("checksums-", i), Version: "v1.4.0"}, nil)
		w.after(time.Second) // the first is the sharder
	}
	w.replicaOf(shardlease.Config{Identity: "checksums-canary-0", Weight: ptr.To(5), Version: "v1.5.0"}, nil)
	w.after(time.Minute)
	show("ring checksums", "weigh checksums-canary-0 50", "weigh checksums-canary-0 50 --confirm")
	w.after(time.Minute)
	show("weigh checksums-canary-0 0 --confirm")
}

// playScenes calls show with what the page shows, scene by scene.
func (w *world) playScenes(show func(commands ...string)) {
	var hanging atomic.Pointer[string]
	end := make(chan struct{})
	work := func(_ context.Context, object string) {
		if h := hanging.Load(); h != nil && *h == object {
			<-end // it does not heed the end of its context
		}
	}
	w.configMaps(12) // first, as their UIDs decide about their places
	w.elect("web-7d4b9")
	a := w.replica("checksums-a", work)
	w.after(time.Second)
	b := w.replica("checksums-b", work)
	w.publish("web", "10.0.0.7", "10.0.0.8")
	w.lose("w1", v1alpha1.PhaseDetected, &v1alpha1.Hold{
		Reason: "Storm", Message: "4 of 7 nodes are unhealthy, as many as half",
	})
	w.after(5 * time.Minute)
	show("status", "ring checksums", "explain configmap/x1", "plan checksums --without checksums-a",
		"plan checksums --with checksums-c", "fences")

	// A shard gets other weights.
	show("weigh checksums-a 50", "weigh checksums-a 0 --confirm")
	w.after(5 * time.Second)
	show("ring checksums --resource configmaps")
	show("weigh checksums-a --undo --confirm")
	w.after(5 * time.Second)

	// A shard joins, and work on an object that it should have does not end.
	hanging.Store(ptr.To("x3"))
	w.touch("x3")
	w.after(time.Second)
	c := w.replica("checksums-c", work)
	w.after(30 * time.Second)
	w.note("x3", api.DrainLabel("checksums"), 30*time.Second)
	show("ring checksums -o wide", "explain configmap/x3")

	// All shards are cut off.
	c.pause()
	b.pause()
	a.pause()
	w.after(35 * time.Second)
	show("orphans checksums")

	// All of them end.
	close(end)
	for _, s := range []*shardOf{a, b, c} {
		s.client.Resume()
	}
	w.after(time.Minute)
	for _, s := range []*shardOf{c, b, a} {
		s.stop()
	}
	w.after(time.Second)
	show("uninstall checksums", "uninstall checksums --confirm")

	_, err := w.kube.CoreV1().Nodes().Create(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w2"}},
		metav1.CreateOptions{})
	require.NoError(w.t, err)
	show("fence w2", "fence w2 --confirm")
}

// touch changes an object, so that there is work on it.
func (w *world) touch(name string) {
	m, err := w.kube.CoreV1().ConfigMaps("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	m.Data = map[string]string{"touched": "true"}
	_, err = w.kube.CoreV1().ConfigMaps("ns").Update(w.t.Context(), m, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// note has an object say who has changed a label last, as a real API server does.
func (w *world) note(name, key string, ago time.Duration) {
	m, err := w.kube.CoreV1().ConfigMaps("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	fields := fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{}}}}`, key)
	m.Data = map[string]string{"noted": "true"} // a change of managedFields alone is none
	m.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "bellwether-sharder", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		Time: ptr.To(metav1.NewTime(time.Now().Add(-ago))), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}}
	_, err = w.kube.CoreV1().ConfigMaps("ns").Update(w.t.Context(), m, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// publish creates the EndpointSlice of a Service.
func (w *world) publish(service string, addresses ...string) {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: service, Labels: map[string]string{
			discoveryv1.LabelManagedBy: endpoints.ManagedBy, discoveryv1.LabelServiceName: service,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To(int32(443)), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	_, err := w.kube.DiscoveryV1().EndpointSlices("ns").Create(w.t.Context(), s, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// lose creates the NodeFence of a node.
func (w *world) lose(node string, phase v1alpha1.Phase, hold *v1alpha1.Hold) {
	client, err := dynamic.NewForConfig(w.server.Client("fencer").Config())
	require.NoError(w.t, err)
	f := &v1alpha1.NodeFence{Node: node, ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.Name(node)}}
	f.SetGroupVersionKind(v1alpha1.Kind())
	object := func() *unstructured.Unstructured {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f)
		require.NoError(w.t, err)
		return &unstructured.Unstructured{Object: content}
	}
	u, err := client.Resource(v1alpha1.Resource()).Create(w.t.Context(), object(), metav1.CreateOptions{})
	require.NoError(w.t, err)
	require.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f))
	f.Status.Phase, f.Status.Hold, f.Status.Incident = phase, hold, 1
	f.Status.Triggers = []v1alpha1.Trigger{{Type: "Ready", Status: "Unknown", Since: metav1.Now()}}
	_, err = client.Resource(v1alpha1.Resource()).UpdateStatus(w.t.Context(), object(), metav1.UpdateOptions{})
	require.NoError(w.t, err)
}
