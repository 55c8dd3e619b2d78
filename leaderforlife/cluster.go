package leaderforlife

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

const (
	// requestTimeout bounds a request.
	requestTimeout = 10 * time.Second
	// writeGrace is how long a write continues after its context has ended, so that its outcome is
	// known.
	writeGrace = 2 * time.Second
	// watchTimeout ends watches, because a dead connection would otherwise stay silent for ever.
	watchTimeout = 30 * time.Minute
	// refusalPatience is how long a verb must be refused before a candidate does without it. A
	// starting API server refuses everything, so a candidate that believed it could lead beside
	// another Pod.
	refusalPatience = time.Second
	// refusalGap separates unrelated refusals.
	refusalGap = 2 * time.Minute
)

// cluster sends a candidate's requests. Every request is bounded in time. None is retried here.
type cluster struct {
	config      config
	locks       locks
	group, kind string // of the lock: API group and resource
	label       string // key of the label on the leader's Pod

	refused  *kube.Refusals  // by verb and resource, or by [credentials]
	said     map[string]bool // messages that were logged once
	failures *kube.Failures
}

// credentials is the key of refusals that apply to every request.
const credentials = ""

func newCluster(c config) *cluster {
	k := &cluster{
		config: c,
		locks:  objects[*corev1.ConfigMap]{c.client.CoreV1().ConfigMaps(c.namespace), configMapOf}, kind: "configmaps",
		label: LeaderLabel(c.lock), refused: kube.NewRefusals(clock.System(), refusalGap), said: map[string]bool{},
		failures: kube.NewFailures(c.log, clock.System()),
	}
	if c.lease {
		k.locks = objects[*coordinationv1.Lease]{c.client.CoordinationV1().Leases(c.namespace), leaseOf}
		k.kind, k.group = "leases", coordinationv1.GroupName
	}
	return k
}

// do sends a request. Its error describes the request.
func (k *cluster) do(ctx context.Context, needs kube.Right, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := request(ctx)
	k.refused.Note(needs.Verb+" "+needs.Resource.Resource, kube.RoleMissing(err))
	k.refused.Note(credentials, kube.Unauthorized(err))
	if err == nil {
		return nil
	}
	return &kube.RequestError{Right: needs, Err: err}
}

// write sends a request that changes something. The end of ctx does not cancel it at once.
func (k *cluster) write(ctx context.Context, needs kube.Right, request func(context.Context) error) error {
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(writeGrace, cancel) })
	defer stop()
	return k.do(bounded, needs, request)
}

// refusedFor returns for how long RBAC has refused the request of err, or 0 if err is no refusal.
func (k *cluster) refusedFor(err error) time.Duration {
	var failed *kube.RequestError
	if !errors.As(err, &failed) || !kube.RoleMissing(failed.Err) {
		return 0
	}
	return k.refused.Lasted(failed.Verb + " " + failed.Resource.Resource)
}

// missing reports whether err means that an optional verb is not granted. It logs the consequence
// once.
func (k *cluster) missing(err error, consequence string) bool {
	if k.refusedFor(err) < refusalPatience {
		return false
	}
	k.sayOnce(consequence, zap.Error(err))
	return true
}

func (k *cluster) sayOnce(what string, fields ...zap.Field) {
	if !k.said[what] {
		k.said[what] = true
		k.config.log.Warn(what, fields...)
	}
}

// right returns what a request about one object needs, or one about all objects if name is empty.
func (k *cluster) right(verb, group, resource, name string) kube.Right {
	of := schema.GroupResource{Group: group, Resource: resource}
	return kube.Right{Verb: verb, Resource: of, Namespace: k.config.namespace, Name: name}
}

// read sends a get. found is false only if the API server states that the object does not exist.
func read[T metav1.Object](
	ctx context.Context, k *cluster, needs kube.Right, get func(context.Context) (T, error),
) (o T, found bool, err error) {
	err = k.do(ctx, needs, func(ctx context.Context) (err error) {
		o, err = get(ctx)
		return kube.Named(o, needs.Name, err)
	})
	if absent(err) {
		return o, false, nil
	}
	return o, err == nil, err
}

// lock reads the lock. It returns nil if the lock does not exist.
func (k *cluster) lock(ctx context.Context) (*lock, error) {
	needs := k.right("get", k.group, k.kind, k.config.lock)
	o, found, err := read(ctx, k, needs, func(ctx context.Context) (metav1.Object, error) {
		return k.locks.get(ctx, k.config.lock)
	})
	if !found {
		return nil, err
	}
	l, err := parseLock(k.kind, o)
	if err != nil {
		return nil, err
	}
	return &l, nil
}

func (k *cluster) createLock(ctx context.Context, me podID, labelled bool) error {
	return k.write(ctx, k.right("create", k.group, k.kind, k.config.lock), func(ctx context.Context) error {
		return k.locks.create(ctx, lockMeta(k.config, me, labelled))
	})
}

// deleteLock deletes exactly this version of the lock.
func (k *cluster) deleteLock(ctx context.Context, l lock) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID:             ptr.To(l.uid),
		ResourceVersion: ptr.To(l.version),
	}}
	return k.write(ctx, k.right("delete", k.group, k.kind, k.config.lock), func(ctx context.Context) error {
		return k.locks.delete(ctx, k.config.lock, options)
	})
}

// pod reads a Pod. It returns nil if no Pod has this name.
func (k *cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	needs := k.right("get", "", "pods", name)
	pod, found, err := read(ctx, k, needs, func(ctx context.Context) (*corev1.Pod, error) {
		return k.config.client.CoreV1().Pods(k.config.namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if !found {
		return nil, err
	}
	return pod, nil
}

// labelled lists the Pods with the leader's label, by a quorum read. listed is false if RBAC
// refuses.
func (k *cluster) labelled(ctx context.Context) (pods []corev1.Pod, listed bool, err error) {
	var list *corev1.PodList
	err = k.do(ctx, k.right("list", "", "pods", ""), func(ctx context.Context) (err error) {
		list, err = k.config.client.CoreV1().Pods(k.config.namespace).List(ctx,
			metav1.ListOptions{LabelSelector: k.label})
		if err == nil && (list.ResourceVersion == "" || list.Continue != "") {
			// an empty object decodes as an empty list
			err = errors.New("the answer is not a whole list of an API server")
		}
		return err
	})
	switch {
	case k.missing(err, "without the verb list on pods, this Pod may lead beside a leader whose lock was removed "+
		"before its Pod had ended"):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	for _, pod := range list.Items {
		if pod.Labels[k.label] != "" { // some fakes do not select
			pods = append(pods, pod)
		}
	}
	return pods, true, nil
}

// setLabel sets the label of our Pod, or removes it if value is nil, if the Pod has this version.
func (k *cluster) setLabel(ctx context.Context, me *corev1.Pod, value *string) error {
	return k.patch(ctx, me, map[string]any{"labels": map[string]any{k.label: value}})
}

const withoutPatch = "without the verb patch on pods, another candidate may lead beside this Pod " +
	"if its lock is removed before the Pod has ended"

// mayLabel tests by an empty patch whether our Pod may be patched.
func (k *cluster) mayLabel(ctx context.Context, me *corev1.Pod) (bool, error) {
	err := k.patch(ctx, me, map[string]any{})
	if k.missing(err, withoutPatch) {
		return false, nil
	}
	return err == nil, err
}

// patch changes metadata of our Pod. The resourceVersion keeps a late removal of the label from
// disowning a leader.
func (k *cluster) patch(ctx context.Context, me *corev1.Pod, metadata map[string]any) error {
	metadata["uid"] = me.UID
	if me.ResourceVersion != "" { // fake clientsets leave it empty
		metadata["resourceVersion"] = me.ResourceVersion
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", me.Name, err)
	}
	return k.write(ctx, k.right("patch", "", "pods", me.Name), func(ctx context.Context) error {
		_, err := k.config.client.CoreV1().Pods(k.config.namespace).Patch(ctx, me.Name, types.MergePatchType, body,
			metav1.PatchOptions{})
		return err
	})
}

// node reads the state of a node.
func (k *cluster) node(ctx context.Context, name string) (nodeState, error) {
	needs := kube.Right{Verb: "get", Resource: corev1.Resource("nodes"), Name: name}
	node, found, err := read(ctx, k, needs, func(ctx context.Context) (*corev1.Node, error) {
		return k.config.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	})
	switch {
	case k.missing(err, "without the verb get on nodes, WithNodeCheck has no effect"):
		return nodeState{}, nil
	case err != nil:
		return nodeState{}, err
	case !found:
		return nodeState{known: true, gone: true}, nil
	}
	return stateOf(node), nil
}

// watchable is an object to watch.
type watchable struct{ resource, name string }

// watch opens a watch of one object that starts with its present version.
func (k *cluster) watch(ctx context.Context, w watchable) (watch.Interface, error) {
	options := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String(),
		// watchTimeout ends the watch first, because the server's timeout does not arrive on a dead
		// connection.
		TimeoutSeconds: ptr.To(int64((watchTimeout + time.Minute) / time.Second)),
	}
	needs, open := k.right("watch", "", w.resource, w.name), k.config.client.CoreV1().Pods(k.config.namespace).Watch
	switch w.resource {
	case "nodes":
		needs.Namespace, open = "", k.config.client.CoreV1().Nodes().Watch
	case k.kind:
		needs.Resource.Group, open = k.group, k.locks.watch
	}
	stream, err := open(ctx, options)
	if err != nil {
		return nil, &kube.RequestError{Right: needs, Err: err}
	}
	return stream, nil
}

// rights returns the rights that a candidate needs, and those that it can do without.
func (k *cluster) rights() []kube.Right {
	var all []kube.Right
	add := func(resource schema.GroupResource, namespace, name string, verbs ...string) {
		all = append(all, kube.RightsOn(resource, namespace, name, append(verbs, "watch")...)...)
	}
	lock := schema.GroupResource{Group: k.group, Resource: k.kind}
	add(lock, k.config.namespace, k.config.lock, "create", "get", "delete")
	add(corev1.Resource("pods"), k.config.namespace, "", "get", "list", "patch")
	if k.config.nodes {
		add(corev1.Resource("nodes"), "", "", "get")
	}
	return all
}

// sayMissingRights logs all rights that are missing, once, when a request that a candidate cannot do
// without has been refused for long enough.
func (c *candidate) sayMissingRights(ctx context.Context, err error) {
	if c.rightsAsked || c.cluster.refusedFor(err) < refusalPatience {
		return
	}
	c.rightsAsked = true
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kube.SayMissingRights(ctx, c.config.client, c.cluster.rights(), c.config.log)
}
