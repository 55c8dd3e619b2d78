package conformance

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// patience is how long a case waits for an event. Only one that never comes takes so long, and in a
// bubble it takes no time.
const patience = time.Minute

// caseLabel distinguishes the objects of one case from those of others in the same namespace.
const caseLabel = "conformance.bellwether.dev/case"

var (
	configMapResource   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	leaseResource       = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	clusterRoleResource = schema.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterroles",
	}
)

type labels = map[string]string

// unique is a name for the objects of a case, and the value of its label.
func unique(t *testing.T) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Name())) // never fails
	return fmt.Sprintf("case-%08x", hash.Sum32())
}

// ofCase selects the objects of a case.
func ofCase(t *testing.T) string { return caseLabel + "=" + unique(t) }

// named selects one object.
func named(name string) string { return "metadata.name=" + name }

// objectMeta is the metadata of an object of the case, with more labels.
func objectMeta(t *testing.T, suffix string, more labels) metav1.ObjectMeta {
	all := labels{caseLabel: unique(t)}
	for key, value := range more {
		all[key] = value
	}
	return metav1.ObjectMeta{Name: unique(t) + suffix, Labels: all}
}

func newConfigMap(t *testing.T, suffix string, more labels) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: objectMeta(t, suffix, more), Data: map[string]string{"key": "value"}}
}

func newLease(t *testing.T) *coordinationv1.Lease {
	holder, seconds, transitions := "somebody", int32(15), int32(2)
	return &coordinationv1.Lease{
		ObjectMeta: objectMeta(t, "", nil),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions,
		},
	}
}

func (c *Clients) configMaps() coreclient.ConfigMapInterface {
	return c.Typed.CoreV1().ConfigMaps(c.Namespace)
}

func (c *Clients) leases() coordinationclient.LeaseInterface {
	return c.Typed.CoordinationV1().Leases(c.Namespace)
}

func (c *Clients) metadata(resource schema.GroupVersionResource) metadata.ResourceInterface {
	return c.Metadata.Resource(resource).Namespace(c.Namespace)
}

// core is for requests that typed clients do not make.
func (c *Clients) core() rest.Interface { return c.Typed.CoreV1().RESTClient() }

func (c *Clients) createConfigMap(t *testing.T, suffix string, more labels) *corev1.ConfigMap {
	t.Helper()
	return c.create(t, newConfigMap(t, suffix, more))
}

func (c *Clients) create(t *testing.T, object *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	created, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func (c *Clients) update(t *testing.T, object *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	updated, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	return updated
}

// put changes one key of a ConfigMap's data.
func (c *Clients) put(t *testing.T, object *corev1.ConfigMap, value string) *corev1.ConfigMap {
	t.Helper()
	object = object.DeepCopy()
	object.Data = map[string]string{"key": value}
	return c.update(t, object)
}

// label replaces the labels of a ConfigMap except its case's.
func (c *Clients) label(t *testing.T, object *corev1.ConfigMap, more labels) *corev1.ConfigMap {
	t.Helper()
	object = object.DeepCopy()
	object.Labels = objectMeta(t, "", more).Labels
	return c.update(t, object)
}

func (c *Clients) get(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	got, err := c.configMaps().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return got
}

func (c *Clients) remove(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, c.configMaps().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// gone asserts that no such ConfigMap exists.
func (c *Clients) gone(t *testing.T, name string) {
	t.Helper()
	_, err := c.configMaps().Get(t.Context(), name, metav1.GetOptions{})
	refused(t, err, 404, metav1.StatusReasonNotFound)
}

// now is a resourceVersion of ConfigMaps after everything so far. On a real server the consistent
// list also makes the cache that serves watches catch up, without which the first events of a watch
// may be of older states.
func (c *Clients) now(t *testing.T) string {
	t.Helper()
	list, err := c.configMaps().List(t.Context(), metav1.ListOptions{LabelSelector: ofCase(t)})
	require.NoError(t, err)
	require.NotEmpty(t, list.ResourceVersion)
	return list.ResourceVersion
}

// otherNamespace creates a separate namespace for the case.
func (c *Clients) otherNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	namespace, err := c.Typed.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	return namespace.Name
}

// refused asserts that the server has answered with this code and reason.
func refused(t *testing.T, err error, code int32, reason metav1.StatusReason) {
	t.Helper()
	require.Error(t, err)
	var answer apierrors.APIStatus
	require.ErrorAs(t, err, &answer)
	status := answer.Status()
	assert.Equal(t, code, status.Code, "%v", err)
	assert.Equal(t, reason, status.Reason, "%v", err)
	assert.Equal(t, metav1.StatusFailure, status.Status, "%v", err)
}

// newer asserts that one resourceVersion comes after another.
func newer(t *testing.T, later, earlier string) {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(later, earlier)
	require.NoError(t, err)
	assert.Positive(t, order, "%s is not after %s", later, earlier)
}

// notOlder asserts that one resourceVersion is the other or comes after it.
func notOlder(t *testing.T, later, earlier string) {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(later, earlier)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, order, 0, "%s is before %s", later, earlier)
}

// watcher is what all clients can do.
type watcher interface {
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// stream is a watch that ends with the test.
type stream struct {
	t      *testing.T
	events <-chan watch.Event
}

func follow(t *testing.T, watcher watcher, options metav1.ListOptions) *stream {
	t.Helper()
	w, err := watcher.Watch(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return &stream{t: t, events: w.ResultChan()}
}

// event is a watch.Event of an object with metadata.
type event struct {
	watch.Event
	metav1.Object
}

// raw returns the next event, except bookmarks that mark nothing, which come whenever the server likes.
func (s *stream) raw() watch.Event {
	s.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case e, ok := <-s.events:
			require.True(s.t, ok, "the stream has ended")
			if object, err := meta.Accessor(e.Object); e.Type != watch.Bookmark || err != nil ||
				len(object.GetAnnotations()) > 0 {
				return e
			}
		case <-deadline:
			require.Fail(s.t, "no event")
		}
	}
}

// next returns the next event and asserts its type.
func (s *stream) next(kind watch.EventType) event {
	s.t.Helper()
	e := s.raw()
	require.Equal(s.t, kind, e.Type, "%v", e.Object)
	object, err := meta.Accessor(e.Object)
	require.NoError(s.t, err)
	return event{Event: e, Object: object}
}

// expect asserts the next events, each as its type and the object's suffix: "ADDED -one".
func (s *stream) expect(want ...string) {
	s.t.Helper()
	var got []string
	for range want {
		e := s.raw()
		object, err := meta.Accessor(e.Object)
		require.NoError(s.t, err)
		got = append(got, fmt.Sprintf("%s %s", e.Type, suffix(s.t, object)))
	}
	require.Equal(s.t, want, got)
}

// ends asserts that nothing comes before the end of the stream.
func (s *stream) ends() {
	s.t.Helper()
	select {
	case e, ok := <-s.events:
		require.False(s.t, ok, "%s %v", e.Type, e.Object)
	case <-time.After(patience):
		require.Fail(s.t, "the stream has not ended")
	}
}

// cut asserts that a stream that the client has given up ends. client-go may report the cut as an error first.
func (s *stream) cut() {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e, ok := <-s.events:
			if !ok {
				return
			}
			require.EqualValues(s.t, "ERROR", e.Type)
		case <-deadline:
			require.Fail(s.t, "the stream has not ended")
		}
	}
}

// suffix distinguishes an object from others of its case.
func suffix(t *testing.T, object metav1.Object) string {
	return strings.TrimPrefix(object.GetName(), unique(t))
}

// suffixes is suffix for a list.
func suffixes[T any, P interface {
	*T
	metav1.Object
}](t *testing.T, items []T,
) []string {
	found := make([]string, 0, len(items))
	for i := range items {
		found = append(found, suffix(t, P(&items[i])))
	}
	return found
}
