package sharder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// promptly is within what an object that is created has an owner, when nothing else has been wrong
// for long.
const promptly = 10 * time.Second

// TestSimulatedPoison is that one thing with which something is wrong, for ever, concerns no other:
// an object that a policy denies, or a child, records that somebody forges, a resource that cannot
// be listed. When all other faults have been over for the time of Quiet, every other object is with
// its owner, and one that is created then is so promptly.
func TestSimulatedPoison(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostResponses, sim.Refused, sim.Kill,
		sim.Terminate, sim.Outage, sim.Restart, sim.Interference,
	}
	s.Interfere = func(w *sim.World, r *rand.Rand) {
		poisonOf(w, r).act(w, r)
		meddle(w, r)
	}
	s.Main = func(ctx context.Context, p *sim.Process) {
		nodes := api.Resource{GVR: corev1.SchemeGroupVersion.WithResource("nodes")}
		runReplicaOf(ctx, p, append([]api.Resource{nodes}, configMaps...),
			func(next http.RoundTripper) http.RoundTripper {
				return hands(func(q *http.Request) (*http.Response, error) {
					if chosen, ok := p.World().State.Load(poisonKey); ok && chosen.(poison).denies(q) {
						return denial(q)
					}
					return next.RoundTrip(q)
				})
			})
	}
	s.Check = othersHaveTheirOwners
	sim.Prove(t, s, sim.Schedules(t, 40))
}

// poison is with what something is wrong in a world.
type poison string

const (
	poisonKey = "poison"

	deniedObject   poison = "object"
	deniedChild    poison = "child"
	forgedRecords  poison = "records"
	failingLists   poison = "lists"
	poisonedName          = "poisoned"
	poisonedParent        = "parent"
)

// poisonOf chooses that of a world.
func poisonOf(w *sim.World, r *rand.Rand) poison {
	all := []poison{deniedObject, deniedChild, forgedRecords, failingLists}
	chosen, _ := w.State.LoadOrStore(poisonKey, all[r.IntN(len(all))])
	return chosen.(poison)
}

// denies reports whether a request is refused.
func (p poison) denies(q *http.Request) bool {
	switch p {
	case deniedObject:
		return q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/configmaps/"+poisonedName)
	case deniedChild:
		return q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/pods/"+poisonedName)
	case failingLists:
		return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/nodes")
	}
	return false
}

// act does what somebody has to do for it.
func (p poison) act(w *sim.World, r *rand.Rand) {
	ctx, client := context.Background(), objectsOf(w)
	object := func(name string) (*corev1.ConfigMap, error) {
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			o, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
				metav1.CreateOptions{})
		}
		return o, err
	}
	switch p {
	case deniedObject:
		_, _ = object(poisonedName)
	case deniedChild:
		if root, err := object(poisonedParent); err == nil {
			child := childOf(root)
			child.GenerateName, child.Name = "", poisonedName
			_, _ = childrenOf(w).Create(ctx, child, metav1.CreateOptions{})
		}
	case forgedRecords:
		forge(w, r)
	}
}

// forge gives an object a record, as the ring writes it, of an epoch that never is.
func forge(w *sim.World, r *rand.Rand) {
	ctx, client := context.Background(), objectsOf(w)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "user"})
	if err != nil || len(list.Items) == 0 {
		return
	}
	o, shard := list.Items[r.IntN(len(list.Items))], string(rune('a'+r.IntN(3)))
	l, err := kubernetes.NewForConfigOrDie(w.Server.Client(user).Config()).CoordinationV1().Leases("ns").Get(ctx, shard,
		metav1.GetOptions{})
	if err != nil {
		return
	}
	record := fmt.Sprintf(`{"uid":%q,"shard":%q,"leaseUID":%q,"epoch":1000000,"state":"owned"}`, o.UID, shard, l.UID)
	labels := map[string]any{api.SealLabel(simulatedRing): strconv.FormatUint(xxhash.Sum64String(record), 16)}
	if r.IntN(2) == 0 {
		labels[api.ShardLabel(simulatedRing)] = shard
	}
	patch := must(json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": labels, "annotations": map[string]any{
			api.OwnerAnnotation(simulatedRing): record,
			recordAnnotation:                   record,
		},
	}}))
	_, _ = client.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// hands are what requests pass through.
type hands func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (h hands) RoundTrip(q *http.Request) (*http.Response, error) { return h(q) }

// CancelRequest is for client-go, which complains of transports without it. The request's context
// ends, too.
func (h hands) CancelRequest(*http.Request) {}

// denial is the answer of an API server with a policy that refuses a patch, or with a webhook for
// conversion that is down.
func denial(q *http.Request) (*http.Response, error) {
	s := apierrors.NewInternalError(errors.New("conversion webhook failed")).Status()
	if q.Method == http.MethodPatch {
		s = apierrors.NewForbidden(corev1.Resource("configmaps"), poisonedName,
			errors.New("a policy denies it")).Status()
		// the default of a ValidatingAdmissionPolicy
		s.Code, s.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	}
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &http.Response{
		StatusCode: int(s.Code), Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(bytes.NewReader(must(json.Marshal(s)))),
	}, nil
}

// othersHaveTheirOwners is what holds when nothing has been wrong for long, but for the poison.
func othersHaveTheirOwners(w *sim.World) error {
	ctx, client := context.Background(), objectsOf(w)
	err := everyObjectHasOneOwner(w)
	late, createErr := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"}},
		metav1.CreateOptions{})
	if createErr != nil {
		return errors.Join(err, createErr)
	}
	time.Sleep(promptly)
	late, getErr := client.Get(ctx, late.Name, metav1.GetOptions{})
	if getErr != nil {
		return errors.Join(err, getErr)
	}
	if _, drained := late.Labels[api.DrainLabel(simulatedRing)]; drained ||
		late.Labels[api.ShardLabel(simulatedRing)] == "" {
		err = errors.Join(err,
			fmt.Errorf("an object that was created %v ago has no owner: %s", promptly, explain(w, late.Name)))
	}
	return err
}
