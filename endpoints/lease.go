package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Metadata of a LeaseStore's Leases.
const (
	// serviceLabel holds the name of the Service.
	serviceLabel = "endpoints.bellwether.dev/service"
	// namespaceLabel holds the namespace of the Service.
	namespaceLabel = "endpoints.bellwether.dev/namespace"
	// endpointsAnnotation holds the addresses and ports of the instance, as JSON.
	endpointsAnnotation = "endpoints.bellwether.dev/endpoints"
)

// LeaseStore is one coordination.k8s.io/v1 Lease for each instance. Its labels
// endpoints.bellwether.dev/service and endpoints.bellwether.dev/namespace name the Service. The
// number of instances is unlimited and does not affect the cost of a heartbeat. Several Services
// may share a namespace. Because instances delete the Leases of expired ones, use a namespace in
// which no Lease elects a leader: a process that may delete such a Lease can make two leaders.
//
// An instance considers the store lost if its own Lease is gone. Deleting the Lease of an instance
// removes that instance.
type LeaseStore struct {
	// Namespace of the Leases. Default: that of the Service.
	Namespace string
}

// leasePage bounds how many Leases one request reads.
const leasePage = 500

func (l LeaseStore) withDefaults(config Config) Store {
	if l.Namespace == "" {
		l.Namespace = config.Namespace
	}
	return l
}

func (l LeaseStore) problems(Config) []error {
	var errs []error
	for _, problem := range validation.IsDNS1123Label(l.Namespace) {
		errs = append(errs, fmt.Errorf("LeaseStore.Namespace: %s (got %q)", problem, l.Namespace))
	}
	return errs
}

func (l LeaseStore) open(client kubernetes.Interface, config Config) (store, []string) {
	first := config.endpoints()[0]
	r := registration{Ports: config.Ports}
	for _, a := range config.Addresses {
		r.Addresses = append(r.Addresses, a.String())
	}
	s := &leases{
		client: client.CoordinationV1().Leases(l.Namespace), registration: r,
		service:  types.NamespacedName{Namespace: l.Namespace, Name: config.Service},
		labels:   labels.Set{serviceLabel: config.Service, namespaceLabel: config.Namespace},
		name:     config.Namespace + "." + config.Service + "." + entryKey(first.Address, first.Port.Number),
		duration: int32(min(math.Ceil(config.ExpireAfter.Seconds()), math.MaxInt32)),
	}
	return s, []string{s.name}
}

func (l LeaseStore) rights() []kube.Right {
	return kube.RightsOn(leaseKind.resource, l.Namespace, "", "list", "get", "create", "update", "delete")
}

// registration is the value of endpointsAnnotation.
type registration struct {
	Addresses []string `json:"addresses"`
	Ports     []Port   `json:"ports"`
	// Incarnation of the process that wrote it.
	Incarnation string `json:"incarnation,omitempty"`
}

// endpoints returns the instance's endpoints, or why it has none.
func (r registration) endpoints() ([]Endpoint, error) {
	var all []Endpoint
	for _, text := range r.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		for _, p := range r.Ports {
			if err := (Endpoint{address, p}).problem(); err != nil {
				return nil, err
			}
			all = append(all, Endpoint{address, p})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no address, or no port")
	}
	return all, nil
}

// leases is an open LeaseStore.
type leases struct {
	client       typedcoordinationv1.LeaseInterface
	service      types.NamespacedName // its name, in the namespace of the Leases
	labels       labels.Set           // of the Service's Leases
	name         string               // of this instance's Lease
	registration registration
	duration     int32
}

func (s *leases) resolution() time.Duration { return time.Microsecond }

func (s *leases) at(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.service.Namespace, Name: name}
}

// ours reports whether a Lease belongs to an instance of the Service.
func (s *leases) ours(l *coordinationv1.Lease) bool {
	return s.labels.AsSelector().Matches(labels.Set(l.Labels))
}

func (s *leases) read(ctx context.Context) (snapshot, error) {
	all := snapshot{incarnation: s.service.Namespace, entries: map[string]entry{}}
	options := metav1.ListOptions{LabelSelector: s.labels.String(), Limit: leasePage}
	for {
		page, err := s.client.List(ctx, options)
		if err = kube.Versioned(page, err); err != nil {
			return snapshot{}, leaseKind.failed(ctx, "list", s.service, err)
		}
		for i := range page.Items {
			if l := &page.Items[i]; s.ours(l) { // fake clientsets may not select
				all.entries[l.Name] = entryOf(l)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// entryOf parses a Lease. A malformed entry has a problem and no endpoint.
func entryOf(l *coordinationv1.Lease) entry {
	renewed := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{})
	e := entry{
		mark:    fmt.Sprintf("%s %s %d", l.UID, l.Annotations[endpointsAnnotation], renewed.UnixMicro()),
		created: ptr.Deref(l.Spec.AcquireTime, metav1.MicroTime{}).Time, raw: l, deleted: l.DeletionTimestamp != nil,
	}
	var r registration
	err := json.Unmarshal([]byte(l.Annotations[endpointsAnnotation]), &r)
	if err == nil && renewed.IsZero() {
		e.problem = errors.New("spec.renewTime is missing")
		return e
	}
	if err == nil {
		e.incarnation = r.Incarnation
		e.endpoints, err = r.endpoints()
	}
	if err != nil {
		e.problem = fmt.Errorf("annotation %s: %w", endpointsAnnotation, err)
	}
	return e
}

// refresh writes this instance's Lease, based on the version that was read, so a write that arrives
// after its removal does not restore it.
func (s *leases) refresh(ctx context.Context, old snapshot, h heartbeat) (snapshot, error) {
	standing, exists := old.entries[s.name]
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.service.Namespace, Name: s.name}}
	if exists {
		l = standing.raw.(*coordinationv1.Lease).DeepCopy()
	}
	for key, value := range s.labels {
		metav1.SetMetaDataLabel(&l.ObjectMeta, key, value)
	}
	r := s.registration
	r.Incarnation = h.incarnation
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail: strings and numbers
	}
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, endpointsAnnotation, string(text))
	last := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &s.name, LeaseDurationSeconds: &s.duration,
		AcquireTime: ptr.To(metav1.NewMicroTime(latestCreation(h.born, standing.created))),
		RenewTime:   ptr.To(metav1.NewMicroTime(nextTimestamp(h.wall, last, time.Microsecond))),
	}
	verb := "create"
	if exists {
		verb = "update"
		l, err = s.client.Update(ctx, l, metav1.UpdateOptions{})
	} else {
		l, err = s.client.Create(ctx, l, metav1.CreateOptions{})
	}
	switch err = kube.Named(l, s.name, err); {
	case apierrors.IsAlreadyExists(err):
		return snapshot{}, s.explainExisting(ctx)
	case err != nil:
		return snapshot{}, leaseKind.failed(ctx, verb, s.at(s.name), err)
	}
	next := snapshot{incarnation: old.incarnation, entries: maps.Clone(old.entries)}
	next.entries[s.name] = entryOf(l)
	return next, nil
}

// explainExisting returns the error for a Lease of our name that exists, although the list did not
// contain it.
func (s *leases) explainExisting(ctx context.Context) error {
	l, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	foreign := ""
	if err = kube.Named(l, s.name, err); err == nil && !s.ours(l) {
		foreign = fmt.Sprintf("it lacks the labels %v", s.labels)
	}
	return leaseKind.existing(ctx, s.at(s.name), err, foreign)
}

// remove deletes Leases if they are as they were read. A Lease that another instance has deleted
// counts as gone, but not as removed. client-go takes any answer with the code 200 for a deletion,
// so remove checks this instance's Lease once more, while the next round reads those of others.
func (s *leases) remove(ctx context.Context, old snapshot, keys []string) (next snapshot, removed []string, err error) {
	next = snapshot{incarnation: old.incarnation, entries: maps.Clone(old.entries)}
	for _, key := range keys {
		l := old.entries[key].raw.(*coordinationv1.Lease)
		err := s.client.Delete(ctx, key, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion},
		})
		if err == nil && key == s.name {
			err = s.requireDeleted(ctx, l)
		}
		switch {
		case err == nil:
			removed = append(removed, key)
		case !leaseKind.absent(err, s.at(key)):
			return next, removed, leaseKind.failed(ctx, "delete", s.at(key), err)
		}
		delete(next.entries, key)
	}
	return next, removed, nil
}

var errNotDeleted = errors.New("it is still there, although the answer said that it was deleted")

// requireDeleted returns an error unless a Lease is gone, or about to be. A finalizer may keep it.
func (s *leases) requireDeleted(ctx context.Context, deleted *coordinationv1.Lease) error {
	l, err := s.client.Get(ctx, deleted.Name, metav1.GetOptions{})
	switch err = kube.Named(l, deleted.Name, err); {
	case leaseKind.absent(err, s.at(deleted.Name)):
		return nil
	case err != nil:
		return err
	case l.UID == deleted.UID && l.DeletionTimestamp == nil:
		return errNotDeleted
	}
	return nil
}
