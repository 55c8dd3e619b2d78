package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// collectorPatience is how long a real collector may take, because its controller manager may
	// still be starting.
	collectorPatience = time.Minute
	collectorPoll     = 20 * time.Millisecond
)

var (
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// collected returns when brought reports that the collector has done its work.
func (c *Clients) collected(t *testing.T, brought func() bool) {
	t.Helper()
	if c.Collect != nil {
		c.Collect()
		require.True(t, brought(), "not collected")
	}
	for deadline := time.Now().Add(collectorPatience); !brought(); <-time.After(collectorPoll) {
		require.True(t, time.Now().Before(deadline), "not collected")
	}
}

// goes returns when the collector has deleted a ConfigMap of the case.
func (c *Clients) goes(t *testing.T, suffixes ...string) {
	t.Helper()
	for _, suffix := range suffixes {
		c.collected(t, func() bool { return !c.exists(t, suffix) })
	}
}

// stays returns when the collector has collected what became garbage later, and so has had its chance.
func (c *Clients) stays(t *testing.T, suffixes ...string) {
	t.Helper()
	marker := newConfigMap(t, "", nil)
	marker.Name, marker.GenerateName = "", marker.Name+"-marker-"
	marker.OwnerReferences = []metav1.OwnerReference{gone("v1", "ConfigMap")}
	marker = c.create(t, marker)
	c.goes(t, suffix(t, marker))
	for _, suffix := range suffixes {
		require.True(t, c.exists(t, suffix), "%q", suffix)
	}
}

func (c *Clients) exists(t *testing.T, suffix string) bool {
	t.Helper()
	_, err := c.configMaps().Get(t.Context(), unique(t)+suffix, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return err == nil
}

// gone refers to an owner that never existed. Each has its own UID, because a collector remembers
// whom it has missed.
func gone(apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "gone", UID: uuid.NewUUID()}
}

func ownedBy(owner *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
}

func ofPod(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
}

// blocking is ownedBy with blockOwnerDeletion.
func blocking(owner *corev1.ConfigMap) metav1.OwnerReference {
	yes, reference := true, ownedBy(owner)
	reference.BlockOwnerDeletion = &yes
	return reference
}

func owned(t *testing.T, suffix string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	object := newConfigMap(t, suffix, nil)
	object.OwnerReferences = owners
	return object
}

func (c *Clients) createOwned(t *testing.T, suffix string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	return c.create(t, owned(t, suffix, owners...))
}

// createHeld is createOwned with a finalizer that release removes.
func (c *Clients) createHeld(t *testing.T, suffix string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	object := owned(t, suffix, owners...)
	object.Finalizers = []string{"example.com/held"}
	return c.create(t, object)
}

func (c *Clients) release(t *testing.T, object *corev1.ConfigMap) {
	t.Helper()
	_, err := c.patch(t, object.Name, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	require.NoError(t, err)
}

func (c *Clients) removeBy(t *testing.T, object *corev1.ConfigMap, policy metav1.DeletionPropagation) {
	t.Helper()
	require.NoError(t,
		c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

// deletes returns when the collector has at least begun to delete a ConfigMap.
func (c *Clients) deletes(t *testing.T, object *corev1.ConfigMap) {
	t.Helper()
	c.collected(t, func() bool { return c.get(t, object.Name).DeletionTimestamp != nil })
}

// CollectorCases returns the table of the garbage collector's behaviour.
func CollectorCases() []Case {
	return []Case{
		{"collect: what has lost its owner goes, nothing else", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			object := c.createOwned(t, "-owned", ownedBy(owner))
			c.createConfigMap(t, "-bystander", nil)
			events := follow(t, c.configMaps(),
				metav1.ListOptions{FieldSelector: named(object.Name), ResourceVersion: object.ResourceVersion})
			c.stays(t, "-owned")
			c.remove(t, owner.Name)
			c.goes(t, "-owned")
			events.expect("DELETED -owned")
			c.stays(t, "-bystander")
		}},
		{"collect: what a Pod owns goes when the Pod is gone, not before", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.createOwned(t, "-owned", ofPod(pod))
			c.endPod(t, pod)
			c.stays(t, "-owned")
			c.endPod(t, pod, 0)
			c.goes(t, "-owned")
		}},
		{
			"collect: in the foreground what a Pod owns goes first, and the Pod still has its grace period",
			func(t *testing.T, c *Clients) {
				pod, blocks := c.createPod(t, newPod(t, "")), true
				reference := ofPod(pod)
				reference.BlockOwnerDeletion = &blocks // otherwise it may go last: the Pod waits for no other
				c.createOwned(t, "-owned", reference)
				c.stays(t, "-owned") // the collector knows it now
				require.NoError(t,
					c.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
				c.goes(t, "-owned")
				c.collected(t, func() bool { return len(c.getPod(t, pod.Name).Finalizers) == 0 })
				requireEnding(t, c.getPod(t, pod.Name), grace)
				c.endPod(t, pod, 0)
				c.podGone(t, pod.Name)
			},
		},
		{"collect: a Pod that has lost its owner gets its grace period", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			pod := newPod(t, "")
			pod.OwnerReferences = []metav1.OwnerReference{ownedBy(owner)}
			pod = c.createPod(t, pod)
			c.remove(t, owner.Name)
			c.collected(t, func() bool { return c.getPod(t, pod.Name).DeletionTimestamp != nil })
			requireEnding(t, c.getPod(t, pod.Name), grace)
		}},
		{"collect: an owner that never was is gone", func(t *testing.T, c *Clients) {
			c.createOwned(t, "", gone("v1", "ConfigMap"))
			c.goes(t, "")
		}},
		{"collect: an owner of another uid or name is none", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			other := c.createConfigMap(t, "-other", nil)
			swapped := ownedBy(owner)
			swapped.UID = other.UID
			c.createOwned(t, "-owned", swapped)
			c.goes(t, "-owned")
			c.stays(t, "-owner", "-other")
		}},
		{"collect: a successor of an owner's name does not own", func(t *testing.T, c *Clients) {
			before := c.createHeld(t, "-owner")
			c.createOwned(t, "-owned", ownedBy(before))
			c.remove(t, before.Name)
			c.stays(t, "-owned")
			c.release(t, before)
			after := c.createConfigMap(t, "-owner", nil)
			c.goes(t, "-owned")
			c.createOwned(t, "-owned", ownedBy(after))
			c.stays(t, "-owned", "-owner")
		}},
		{"collect: with one owner left the reference to the other goes", func(t *testing.T, c *Clients) {
			one, two := c.createConfigMap(t, "-one", nil), c.createConfigMap(t, "-two", nil)
			object := c.createOwned(t, "-owned", ownedBy(one), ownedBy(two))
			c.remove(t, one.Name)
			c.collected(t, func() bool { return len(c.get(t, object.Name).OwnerReferences) == 1 })
			assert.Equal(t, []metav1.OwnerReference{ownedBy(two)}, c.get(t, object.Name).OwnerReferences)
			c.remove(t, two.Name)
			c.goes(t, "-owned")
		}},
		{"collect: a chain goes to its end", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-1", nil)
			c.createOwned(t, "-3", ownedBy(c.createOwned(t, "-2", ownedBy(owner))))
			c.remove(t, owner.Name)
			c.goes(t, "-2", "-3")
		}},
		{"collect: an owner in another namespace is none", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			elsewhere := c.Typed.CoreV1().ConfigMaps(c.otherNamespace(t))
			object, err := elsewhere.Create(t.Context(), owned(t, "-owned", ownedBy(owner)), metav1.CreateOptions{})
			require.NoError(t, err)
			c.collected(t, func() bool {
				_, err := elsewhere.Get(t.Context(), object.Name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			c.stays(t, "-owner")
		}},
		{"collect: an object of the cluster may own one of a namespace", func(t *testing.T, c *Clients) {
			roles := c.Typed.RbacV1().ClusterRoles()
			owner, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: objectMeta(t, "", nil)},
				metav1.CreateOptions{})
			require.NoError(t, err)
			c.createOwned(t, "",
				metav1.OwnerReference{
					APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: owner.Name,
					UID: owner.UID,
				})
			c.stays(t, "")
			require.NoError(t, roles.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
			c.goes(t, "")
		}},
		{
			"collect: an object of the cluster with an owner in a namespace is left alone",
			func(t *testing.T, c *Clients) {
				roles := c.Typed.RbacV1().ClusterRoles()
				role := func(suffix string, owner metav1.OwnerReference) {
					object := &rbacv1.ClusterRole{ObjectMeta: objectMeta(t, suffix, nil)}
					object.OwnerReferences = []metav1.OwnerReference{owner}
					_, err := roles.Create(t.Context(), object, metav1.CreateOptions{})
					require.NoError(t, err)
				}
				role("-left", gone("v1", "ConfigMap"))
				role("-marker", gone("rbac.authorization.k8s.io/v1", "ClusterRole"))
				c.collected(t, func() bool {
					_, err := roles.Get(t.Context(), unique(t)+"-marker", metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				})
				_, err := roles.Get(t.Context(), unique(t)+"-left", metav1.GetOptions{})
				require.NoError(t, err)
			},
		},
		{"collect: an owner of an unknown kind may exist", func(t *testing.T, c *Clients) {
			object := c.createOwned(t, "", gone("example.com/v1", "Unknown"), gone("v1", "ConfigMap"))
			c.stays(t, "")
			assert.Equal(t, object, c.get(t, object.Name))
		}},
		{"collect: what finalizers hold is still an owner", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			held := c.createHeld(t, "-held", ownedBy(owner))
			c.createOwned(t, "-owned", ownedBy(held))
			c.remove(t, owner.Name)
			c.deletes(t, held)
			assert.Equal(t, held.Finalizers, c.get(t, held.Name).Finalizers)
			c.stays(t, "-held", "-owned")
			c.release(t, held)
			c.goes(t, "-owned")
		}},
		{"collect: foreground, the last of a chain goes first", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-1", nil)
			c.createOwned(t, "-3", blocking(c.createOwned(t, "-2", blocking(owner))))
			c.stays(t)
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			c.removeBy(t, owner, foreground)
			c.goes(t, "-1")
			events.expect("MODIFIED -1", "MODIFIED -2", "DELETED -3", "DELETED -2", "DELETED -1")
		}},
		{"collect: foreground, a dependent that blocks holds its owner", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			held := c.createHeld(t, "-held", blocking(owner))
			c.removeBy(t, owner, foreground)
			c.deletes(t, held)
			c.stays(t, "-owner")
			c.release(t, held)
			c.goes(t, "-owner")
		}},
		{"collect: foreground, a dependent that does not block holds nothing", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-owner", nil)
			held := c.createHeld(t, "-held", ownedBy(owner))
			c.removeBy(t, owner, foreground)
			c.goes(t, "-owner")
			c.deletes(t, held)
		}},
		{"collect: foreground, other finalizers hold the owner", func(t *testing.T, c *Clients) {
			owner := c.createHeld(t, "-owner")
			c.createOwned(t, "-owned", blocking(owner))
			c.removeBy(t, owner, foreground)
			c.goes(t, "-owned")
			c.collected(t, func() bool { return len(c.get(t, owner.Name).Finalizers) == 1 })
			assert.Equal(t, owner.Finalizers, c.get(t, owner.Name).Finalizers)
			c.release(t, owner)
			c.gone(t, owner.Name)
		}},
		{"collect: foreground, a dependent of another owner is left to it", func(t *testing.T, c *Clients) {
			one, two := c.createConfigMap(t, "-one", nil), c.createConfigMap(t, "-two", nil)
			object := c.createOwned(t, "-owned", blocking(one), blocking(two))
			c.removeBy(t, one, foreground)
			c.goes(t, "-one")
			assert.Equal(t, []metav1.OwnerReference{blocking(two)}, c.get(t, object.Name).OwnerReferences)
			c.stays(t, "-owned")
		}},
		{"collect: foreground, a circle does not hold itself", func(t *testing.T, c *Clients) {
			one := c.createConfigMap(t, "-one", nil)
			two := c.createHeld(t, "-two", blocking(one))
			one.OwnerReferences = []metav1.OwnerReference{blocking(two)}
			one = c.update(t, one)
			c.stays(t, "-one", "-two")
			c.removeBy(t, one, foreground)
			c.goes(t, "-one")
			c.deletes(t, two)
			no, unblocked := false, ownedBy(one)
			unblocked.BlockOwnerDeletion = &no
			assert.Equal(t, []metav1.OwnerReference{unblocked}, c.get(t, two.Name).OwnerReferences)
			c.release(t, two)
			c.goes(t, "-two")
		}},
		{"collect: orphans stay without the reference", func(t *testing.T, c *Clients) {
			owner, other := c.createConfigMap(t, "-owner", nil), c.createConfigMap(t, "-other", nil)
			only := c.createOwned(t, "-only", blocking(owner))
			shared := c.createOwned(t, "-shared", ownedBy(owner), ownedBy(other))
			c.removeBy(t, owner, orphan)
			c.goes(t, "-owner")
			assert.Empty(t, c.get(t, only.Name).OwnerReferences)
			assert.Equal(t, []metav1.OwnerReference{ownedBy(other)}, c.get(t, shared.Name).OwnerReferences)
			c.stays(t, "-only", "-shared")
		}},
		{"collect: what is set to orphan its dependents does when it goes", func(t *testing.T, c *Clients) {
			owner := c.createConfigMap(t, "-1", nil)
			object := owned(t, "-2", ownedBy(owner))
			object.Finalizers = []string{metav1.FinalizerOrphanDependents}
			object = c.create(t, object)
			c.createOwned(t, "-3", ownedBy(object))
			c.remove(t, owner.Name)
			c.goes(t, "-2")
			assert.Empty(t, c.get(t, unique(t)+"-3").OwnerReferences)
			c.stays(t, "-3")
		}},
	}
}
