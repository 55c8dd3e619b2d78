package conformance

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func watchCases() []Case {
	yes, second := true, int64(1)
	return []Case{
		{"watch: an object's life", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			created := c.createConfigMap(t, "", nil)
			updated := c.put(t, created, "other")
			c.remove(t, created.Name)
			assert.Equal(t, created, events.next("ADDED").Event.Object)
			assert.Equal(t, updated, events.next("MODIFIED").Event.Object)
			// The last state, at the time of the deletion.
			deleted := events.next("DELETED").Event.Object.(*corev1.ConfigMap)
			newer(t, deleted.ResourceVersion, updated.ResourceVersion)
			deleted.ResourceVersion = updated.ResourceVersion
			assert.Equal(t, updated, deleted)
		}},
		{"watch: a successor is another object", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			before := c.createConfigMap(t, "", nil)
			c.remove(t, before.Name)
			after := c.createConfigMap(t, "", nil)
			assert.Equal(t, before.UID, events.next("ADDED").GetUID())
			assert.Equal(t, before.UID, events.next("DELETED").GetUID())
			assert.Equal(t, after.UID, events.next("ADDED").GetUID())
		}},
		{"watch: from a list on, only what came after", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "-before", nil)
			from := c.now(t)
			c.createConfigMap(t, "-between", nil)
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: from})
			c.createConfigMap(t, "-after", nil)
			events.expect("ADDED -between", "ADDED -after")
		}},
		{"watch: from a deletion on, only what came after", func(t *testing.T, c *Clients) {
			options := metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)}
			events := follow(t, c.configMaps(), options)
			c.createConfigMap(t, "-before", nil)
			c.remove(t, unique(t)+"-before")
			c.createConfigMap(t, "-after", nil)
			events.expect("ADDED -before")
			options.ResourceVersion = events.next("DELETED").GetResourceVersion()
			follow(t, c.configMaps(), options).expect("ADDED -after")
		}},
		{"watch: from an object on, only what came after", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			updated := c.put(t, created, "1")
			updatedAgain := c.put(t, updated, "2")
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: created.ResourceVersion})
			assert.Equal(t, updated, events.next("MODIFIED").Event.Object)
			assert.Equal(t, updatedAgain, events.next("MODIFIED").Event.Object)
		}},
		{"watch: without resourceVersion, first what is there", func(t *testing.T, c *Clients) {
			for _, resourceVersion := range []string{"", "0"} {
				prefix := "-from" + resourceVersion
				there := c.put(t, c.createConfigMap(t, prefix+"-there", labels{"from": "x" + resourceVersion}), "other")
				c.createConfigMap(t, prefix+"-deleted", labels{"from": "x" + resourceVersion})
				c.remove(t, unique(t)+prefix+"-deleted")
				c.now(t)
				events := follow(t, c.configMaps(), metav1.ListOptions{
					LabelSelector: ofCase(t) + ",from=x" + resourceVersion, ResourceVersion: resourceVersion,
				})
				assert.Equal(t, there, events.next("ADDED").Event.Object)
				c.remove(t, there.Name)
				events.expect("DELETED " + prefix + "-there")
			}
		}},
		{"watch: one object by name, that need not exist", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{FieldSelector: named(unique(t) + "-this"), ResourceVersion: c.now(t)})
			c.createConfigMap(t, "-other", nil)
			c.createConfigMap(t, "-this", nil)
			c.createConfigMap(t, "-this-too", nil)
			c.remove(t, unique(t)+"-other")
			c.remove(t, unique(t)+"-this")
			events.expect("ADDED -this", "DELETED -this")
		}},
		{"watch: an object enters and leaves a selection", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=red", ResourceVersion: c.now(t)})
			blue := c.createConfigMap(t, "", labels{"color": "blue"})
			stillBlue := c.put(t, blue, "other")
			red := c.label(t, stillBlue, labels{"color": "red"})
			stillRed := c.label(t, red, labels{"color": "red", "size": "big"})
			green := c.label(t, stillRed, labels{"color": "green"})
			stillGreen := c.put(t, green, "another")
			redAgain := c.label(t, stillGreen, labels{"color": "red"})

			assert.Equal(t, red, events.next("ADDED").Event.Object)
			assert.Equal(t, stillRed, events.next("MODIFIED").Event.Object)
			// The object leaves as it last was in the selection, at the time of the write that took
			// it out.
			left := events.next("DELETED").Event.Object.(*corev1.ConfigMap)
			assert.Equal(t, green.ResourceVersion, left.ResourceVersion)
			left.ResourceVersion = stillRed.ResourceVersion
			assert.Equal(t, stillRed, left)
			assert.Equal(t, redAgain, events.next("ADDED").Event.Object)
		}},
		{"watch: a deletion outside the selection is none", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=red", ResourceVersion: c.now(t)})
			c.createConfigMap(t, "-blue", labels{"color": "blue"})
			c.remove(t, unique(t)+"-blue")
			c.createConfigMap(t, "-red", labels{"color": "red"})
			events.expect("ADDED -red")
		}},
		{"watch: what has left the selection leaves once", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=red", ResourceVersion: c.now(t)})
			c.label(t, c.createConfigMap(t, "-one", labels{"color": "red"}), nil)
			c.remove(t, unique(t)+"-one")
			c.createConfigMap(t, "-two", labels{"color": "red"})
			events.expect("ADDED -one", "DELETED -one", "ADDED -two")
		}},
		{"watch: by name and labels", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(), metav1.ListOptions{
				FieldSelector: named(unique(t) + "-this"), LabelSelector: "color=red", ResourceVersion: c.now(t),
			})
			c.createConfigMap(t, "-other", labels{"color": "red"})
			object := c.createConfigMap(t, "-this", nil)
			object = c.label(t, object, labels{"color": "red"})
			c.label(t, object, nil)
			events.expect("ADDED -this", "DELETED -this")
		}},
		{"watch: a selection by absence", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color notin (red,blue)", ResourceVersion: c.now(t)})
			object := c.createConfigMap(t, "", nil)
			object = c.label(t, object, labels{"color": "red"})
			object = c.label(t, object, labels{"color": "blue"})
			object = c.label(t, object, labels{"color": "green"})
			c.label(t, object, nil)
			events.expect("ADDED ", "DELETED ", "ADDED ", "MODIFIED ")
		}},
		{"watch: from before a label changed, by the labels of then", func(t *testing.T, c *Clients) {
			red := c.createConfigMap(t, "", labels{"color": "red"})
			blue := c.label(t, red, labels{"color": "blue"})
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=red", ResourceVersion: red.ResourceVersion})
			left := events.next("DELETED")
			assert.Equal(t, "red", left.GetLabels()["color"])
			assert.Equal(t, blue.ResourceVersion, left.GetResourceVersion())
		}},
		{"watch: every watcher gets every event in order", func(t *testing.T, c *Clients) {
			options := metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)}
			watchers := []*stream{
				follow(t, c.configMaps(), options),
				follow(t, c.metadata(configMapResource), options),
				follow(t, c.Dynamic.Resource(configMapResource).Namespace(c.Namespace), options),
			}
			object := c.createConfigMap(t, "", nil)
			versions := []string{object.ResourceVersion}
			for i := range 50 {
				object = c.put(t, object, fmt.Sprint(i))
				versions = append(versions, object.ResourceVersion)
			}
			for _, events := range watchers {
				got := []string{events.next("ADDED").GetResourceVersion()}
				for range 50 {
					got = append(got, events.next("MODIFIED").GetResourceVersion())
				}
				assert.Equal(t, versions, got)
			}
		}},
		{"watch: all namespaces", func(t *testing.T, c *Clients) {
			other := c.otherNamespace(t)
			events := follow(t, c.Typed.CoreV1().ConfigMaps(""),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			for _, namespace := range []string{c.Namespace, other} {
				_, err := c.Typed.CoreV1().ConfigMaps(namespace).Create(t.Context(), newConfigMap(t, "", nil),
					metav1.CreateOptions{})
				require.NoError(t, err)
				assert.Equal(t, namespace, events.next("ADDED").GetNamespace())
			}
		}},
		{"watch: one namespace, not others", func(t *testing.T, c *Clients) {
			other := c.otherNamespace(t)
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			_, err := c.Typed.CoreV1().ConfigMaps(other).Create(t.Context(), newConfigMap(t, "-there", nil),
				metav1.CreateOptions{})
			require.NoError(t, err)
			c.createConfigMap(t, "-here", nil)
			events.expect("ADDED -here")
		}},
		{"watch: objects of the cluster", func(t *testing.T, c *Clients) {
			roles := c.Typed.RbacV1().ClusterRoles()
			list, err := roles.List(t.Context(), metav1.ListOptions{LabelSelector: ofCase(t)})
			require.NoError(t, err)
			events := follow(t, roles,
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: list.ResourceVersion})
			role := &rbacv1.ClusterRole{ObjectMeta: objectMeta(t, "", nil)}
			_, err = roles.Create(t.Context(), role, metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, roles.Delete(t.Context(), role.Name, metav1.DeleteOptions{}))
			events.expect("ADDED ", "DELETED ")
		}},
		{"watch: leases", func(t *testing.T, c *Clients) {
			events := follow(t, c.leases(), metav1.ListOptions{FieldSelector: named(unique(t))})
			created, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			other := "other"
			object := created.DeepCopy()
			object.Spec.HolderIdentity = &other
			updated, err := c.leases().Update(t.Context(), object, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, created, events.next("ADDED").Event.Object)
			assert.Equal(t, updated, events.next("MODIFIED").Event.Object)
		}},
		{"watch: metadata only", func(t *testing.T, c *Clients) {
			events := follow(t, c.metadata(configMapResource),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			created := c.createConfigMap(t, "", nil)
			updated := c.put(t, created, "other")
			c.remove(t, created.Name)
			for _, want := range []struct {
				event  event
				object *corev1.ConfigMap
			}{{events.next("ADDED"), created}, {events.next("MODIFIED"), updated}} {
				got, ok := want.event.Event.Object.(*metav1.PartialObjectMetadata)
				require.True(t, ok, "%T", want.event.Event.Object)
				assert.Equal(t, want.object.ObjectMeta, got.ObjectMeta)
			}
			newer(t, events.next("DELETED").GetResourceVersion(), updated.ResourceVersion)
		}},
		{"watch: the dynamic client gets kinds", func(t *testing.T, c *Clients) {
			events := follow(t, c.Dynamic.Resource(configMapResource).Namespace(c.Namespace),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			c.createConfigMap(t, "", nil)
			object := events.next("ADDED").Event.Object.(*unstructured.Unstructured)
			assert.Equal(t, "ConfigMap", object.GetKind())
			assert.Equal(t, "v1", object.GetAPIVersion())
			assert.Equal(t, map[string]any{"key": "value"}, object.Object["data"])
		}},
		{"watch: a dry run is no event", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "-dry", nil),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			c.createConfigMap(t, "-real", nil)
			events.expect("ADDED -real")
		}},
		{"watch: a collection's deletion is an event for each object", func(t *testing.T, c *Clients) {
			c.five(t)
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			require.NoError(t,
				c.configMaps().DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: ofCase(t)}))
			var got []string
			for range 5 {
				got = append(got, suffix(t, events.next("DELETED")))
			}
			assert.ElementsMatch(t, []string{"-a", "-b", "-c", "-d", "-e"}, got)
		}},
		{"watch: timeoutSeconds ends the stream", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t), TimeoutSeconds: &second})
			c.createConfigMap(t, "", nil)
			events.expect("ADDED ")
			events.ends()
		}},
		{"watch: the end of its context ends the stream", func(t *testing.T, c *Clients) {
			ctx, cancel := context.WithCancel(t.Context())
			w, err := c.configMaps().Watch(ctx, metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			require.NoError(t, err)
			defer w.Stop()
			events := &stream{t: t, events: w.ResultChan()}
			c.createConfigMap(t, "", nil)
			events.expect("ADDED ")
			cancel()
			events.cut()
		}},
		{"watch: Stop ends the stream", func(t *testing.T, c *Clients) {
			w, err := c.configMaps().Watch(t.Context(),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			require.NoError(t, err)
			w.Stop()
			(&stream{t: t, events: w.ResultChan()}).cut()
		}},
		{"watch: initial events end with a bookmark", func(t *testing.T, c *Clients) {
			c.five(t)
			updated := c.put(t, c.get(t, unique(t)+"-b"), "other")
			for _, resourceVersion := range []string{"", "0", updated.ResourceVersion} {
				if resourceVersion == "0" {
					c.now(t)
				}
				events := follow(t, c.configMaps(), metav1.ListOptions{
					LabelSelector: ofCase(t), ResourceVersion: resourceVersion, AllowWatchBookmarks: true,
					SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
				})
				events.expect("ADDED -a", "ADDED -b", "ADDED -c", "ADDED -d", "ADDED -e")
				bookmark := events.next("BOOKMARK")
				assert.Equal(t, map[string]string{metav1.InitialEventsAnnotationKey: "true"}, bookmark.GetAnnotations())
				assert.Empty(t, bookmark.GetName())
				notOlder(t, bookmark.GetResourceVersion(), updated.ResourceVersion)
				assert.IsType(t, &corev1.ConfigMap{}, bookmark.Event.Object)
				live := c.createConfigMap(t, "-live", nil)
				assert.Equal(t, live, events.next("ADDED").Event.Object)
				c.remove(t, live.Name)
				events.expect("DELETED -live")
			}
		}},
		{"watch: a bookmark comes before the end, and is of now", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "-other", nil)
			from := c.now(t)
			live := c.createConfigMap(t, "", nil)
			seconds := int64(3)
			events := follow(t, c.configMaps(), metav1.ListOptions{
				LabelSelector: ofCase(t), ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
			})
			assert.Equal(t, live, events.next("ADDED").Event.Object)
			last := <-events.events // raw would skip it
			require.Equal(t, watch.Bookmark, last.Type)
			notOlder(t, last.Object.(*corev1.ConfigMap).ResourceVersion, live.ResourceVersion)
		}},
		{"watch: initial events of nothing are a bookmark", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(), metav1.ListOptions{
				LabelSelector: ofCase(t), AllowWatchBookmarks: true,
				SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			bookmark := events.next("BOOKMARK")
			assert.Equal(t, "true", bookmark.GetAnnotations()[metav1.InitialEventsAnnotationKey])
			from := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: bookmark.GetResourceVersion()})
			c.createConfigMap(t, "", nil)
			events.expect("ADDED ")
			from.expect("ADDED ")
		}},
		{"watch: initial events of metadata", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "", nil)
			events := follow(t, c.metadata(configMapResource), metav1.ListOptions{
				LabelSelector: ofCase(t), AllowWatchBookmarks: true,
				SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			events.expect("ADDED ")
			assert.Equal(t, "true", events.next("BOOKMARK").GetAnnotations()[metav1.InitialEventsAnnotationKey])
		}},
		{"watch: initial events without bookmarks have no marked end", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "-there", nil)
			events := follow(t, c.configMaps(), metav1.ListOptions{
				LabelSelector: ofCase(t), SendInitialEvents: &yes,
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			events.expect("ADDED -there")
			c.createConfigMap(t, "-live", nil)
			events.expect("ADDED -live")
		}},
		{"watch: initial events declined are none", func(t *testing.T, c *Clients) {
			no := false
			c.createConfigMap(t, "-there", nil)
			events := follow(t, c.configMaps(), metav1.ListOptions{
				LabelSelector: ofCase(t), ResourceVersion: c.now(t), AllowWatchBookmarks: true,
				SendInitialEvents: &no, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			c.createConfigMap(t, "-live", nil)
			events.expect("ADDED -live")
		}},
		{"watch: initial events without resourceVersionMatch are refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Watch(t.Context(),
				metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"watch: initial events with an exact match are refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Watch(t.Context(), metav1.ListOptions{
				AllowWatchBookmarks: true, SendInitialEvents: &yes,
				ResourceVersionMatch: metav1.ResourceVersionMatchExact,
			})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"watch: resourceVersionMatch without initial events is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Watch(t.Context(), metav1.ListOptions{
				ResourceVersion: c.now(t), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"watch: a malformed resourceVersion is refused", func(t *testing.T, c *Clients) {
			// Unlike a list's, the server's fault.
			_, err := c.configMaps().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "malformed"})
			refused(t, err, 500, metav1.StatusReasonUnknown)
		}},
		{"watch: from the future waits for it in silence", func(t *testing.T, c *Clients) {
			events := follow(t, c.configMaps(),
				metav1.ListOptions{
					ResourceVersion: c.now(t) + "000000", LabelSelector: ofCase(t),
					TimeoutSeconds: &second,
				})
			c.createConfigMap(t, "", nil)
			events.ends()
		}},
	}
}
