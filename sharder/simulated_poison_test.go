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

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// promptly is the time within which a new object gets an owner when there has been no other fault
// for a while.
const promptly = 10 * time.Second

// TestSimulatedPoison proves that one permanent fault concerns no other object. The fault is an
// object or a child that a policy denies, forged records, or a resource that cannot be listed. When
// all other faults have been over for the time of Quiet, every other object is with its owner, and
// an object that is created then gets its owner promptly.
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
	sim.Prove(t, s, schedules(t, 40))
}

// poison is the permanent fault of a world.
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

// poisonOf returns the poison of a world. The first call chooses it.
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

// act does what a user must do for the poison to have an effect.
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

// forge gives an object a sealed record of an epoch that never begins.
func forge(w *sim.World, r *rand.Rand) {
	ctx, client := context.Background(), objectsOf(w)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "user"})
	if err != nil || len(list.Items) == 0 {
		return
	}
	o, shard := list.Items[r.IntN(len(list.Items))], string(rune('a'+r.IntN(3)))
	l, err := leasesOf(w).Get(ctx, shard, metav1.GetOptions{})
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
			recordAnnotation: record,
		},
	}}))
	_, _ = client.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// hands is a function that implements http.RoundTripper.
type hands func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (h hands) RoundTrip(q *http.Request) (*http.Response, error) { return h(q) }

// CancelRequest does nothing, because client-go also ends the request's context. client-go
// complains of transports without this method.
func (h hands) CancelRequest(*http.Request) {}

// denial returns the response of an API server to a poisoned request. A policy refuses a patch. Any
// other request fails because a conversion webhook is down.
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

// othersHaveTheirOwners returns an error unless everyObjectHasOneOwner holds and a new object gets
// an owner promptly. This holds when there has been no fault but the poison for a while.
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
