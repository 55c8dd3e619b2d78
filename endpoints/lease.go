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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

const (
	// ServiceLabel is the label of a [LeaseStore]'s Leases with the name of the Service.
	ServiceLabel = "endpoints.bellwether.dev/service"
	// NamespaceLabel is the one with the namespace of the Service.
	NamespaceLabel = "endpoints.bellwether.dev/namespace"
	// EndpointsAnnotation has the addresses and ports of the instance, as JSON.
	EndpointsAnnotation = "endpoints.bellwether.dev/endpoints"
)

// LeaseStore is one coordination.k8s.io/v1 Lease for each instance, with the labels [ServiceLabel] and [NamespaceLabel]. A heartbeat costs the same however many
// instances there are, and there is no limit to their number. Instances delete the Leases of those that have expired, so give them a
// namespace in which no Lease elects a leader: who may delete such a Lease can make two leaders. Several Services may share it.
//
// The store is lost if the own Lease is; whoever deletes single ones removes those instances.
type LeaseStore struct {
	// Namespace of the Leases. Default: that of the Service.
	Namespace string
}

// leasePage is how many Leases are read by one request.
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

func (l LeaseStore) open(client kubernetes.Interface, config Config) store {
	first := config.endpoints()[0]
	r := registration{}
	for _, a := range config.Addresses {
		r.Addresses = append(r.Addresses, a.String())
	}
	for _, p := range config.Ports {
		r.Ports = append(r.Ports, registeredPort{p.Name, p.Number, p.Protocol, p.AppProtocol})
	}
	return &leases{
		client: client, namespace: l.Namespace, service: config.service(), registration: r,
		name:     config.Namespace + "." + config.Service + "." + Key(first.Address, first.Port.Number),
		duration: int32(min(math.Ceil(config.ExpireAfter.Seconds()), math.MaxInt32)),
	}
}

// registration is the value of EndpointsAnnotation.
type registration struct {
	Addresses []string         `json:"addresses"`
	Ports     []registeredPort `json:"ports"`
	// Incarnation of the process that wrote it.
	Incarnation string `json:"incarnation,omitempty"`
}

// text is what a process writes that has this incarnation.
func (r registration) text(incarnation string) string {
	r.Incarnation = incarnation
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(text)
}

type registeredPort struct {
	Name        string          `json:"name,omitempty"`
	Port        int32           `json:"port"`
	Protocol    corev1.Protocol `json:"protocol"`
	AppProtocol string          `json:"appProtocol,omitempty"`
}

// leases is an open LeaseStore.
type leases struct {
	client       kubernetes.Interface
	namespace    string // of the Leases
	service      types.NamespacedName
	name         string // of the own Lease
	registration registration
	duration     int32
	born         time.Time // the acquire time of what this process writes; zero until it has
}

func (s *leases) own() []string { return []string{s.name} }

func (s *leases) String() string { return "Lease " + s.namespace + "/" + s.name }

// labels are those of the Service's Leases.
func (s *leases) labels() labels.Set {
	return labels.Set{ServiceLabel: s.service.Name, NamespaceLabel: s.service.Namespace}
}

// ours reports whether a Lease is that of an instance of the Service.
func (s *leases) ours(l *coordinationv1.Lease) bool {
	return l.Labels[ServiceLabel] == s.service.Name && l.Labels[NamespaceLabel] == s.service.Namespace
}

func (s *leases) read(ctx context.Context) (snapshot, error) {
	all := snapshot{incarnation: s.namespace, entries: map[string]entry{}}
	options := metav1.ListOptions{LabelSelector: s.labels().String(), Limit: leasePage}
	for {
		page, err := s.client.CoordinationV1().Leases(s.namespace).List(ctx, options)
		if err != nil {
			return snapshot{}, accessError("list", fmt.Sprintf("Leases of Service %v in namespace %s", s.service, s.namespace), "leases", coordinationv1.GroupName, err)
		}
		for i := range page.Items {
			if l := &page.Items[i]; s.ours(l) { // should somebody not select
				all.entries[l.Name] = entryOf(l)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// entryOf reads a Lease. What is malformed has a problem, and no endpoint.
func entryOf(l *coordinationv1.Lease) entry {
	renewed := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{})
	e := entry{
		mark:    fmt.Sprintf("%s %s %d", l.UID, l.Annotations[EndpointsAnnotation], renewed.UnixMicro()),
		created: ptr.Deref(l.Spec.AcquireTime, metav1.MicroTime{}).Time, raw: l,
	}
	var r registration
	if err := json.Unmarshal([]byte(l.Annotations[EndpointsAnnotation]), &r); err != nil {
		e.problem = fmt.Errorf("annotation %s: %w", EndpointsAnnotation, err)
		return e
	}
	if renewed.IsZero() {
		e.problem = errors.New("spec.renewTime is missing")
		return e
	}
	for _, text := range r.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			e.endpoints, e.problem = nil, fmt.Errorf("annotation %s: %w", EndpointsAnnotation, err)
			return e
		}
		for _, p := range r.Ports {
			endpoint := Endpoint{address, Port{p.Name, p.Port, p.Protocol, p.AppProtocol}}
			if err := endpoint.problem(); err != nil {
				e.endpoints, e.problem = nil, fmt.Errorf("annotation %s: %w", EndpointsAnnotation, err)
				return e
			}
			e.endpoints = append(e.endpoints, endpoint)
		}
	}
	e.incarnation = r.Incarnation
	if len(e.endpoints) == 0 {
		e.problem = fmt.Errorf("annotation %s has no address, or no port", EndpointsAnnotation)
	}
	return e
}

// refresh writes the own Lease, from the version that was read: one that was removed meanwhile is not put back by an answer that comes late.
func (s *leases) refresh(ctx context.Context, old snapshot, h heartbeat) (snapshot, error) {
	standing, exists := old.entries[s.name]
	born := s.born
	if born.IsZero() {
		born = following(h.wall, standing.created, time.Microsecond)
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	var last time.Time
	if exists {
		l = standing.raw.(*coordinationv1.Lease).DeepCopy()
		last = ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	}
	for key, value := range s.labels() {
		metav1.SetMetaDataLabel(&l.ObjectMeta, key, value)
	}
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, EndpointsAnnotation, s.registration.text(h.incarnation))
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &s.name, LeaseDurationSeconds: &s.duration,
		AcquireTime: ptr.To(metav1.NewMicroTime(youngest(born, standing.created))),
		RenewTime:   ptr.To(metav1.NewMicroTime(following(h.wall, last, time.Microsecond))),
	}
	var err error
	verb, api := "create", s.client.CoordinationV1().Leases(s.namespace)
	if exists {
		verb = "update"
		l, err = api.Update(ctx, l, metav1.UpdateOptions{})
	} else {
		l, err = api.Create(ctx, l, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return snapshot{}, s.whose(ctx)
	case apierrors.IsConflict(err), exists && kube.Absent(err, coordinationv1.Resource("leases"), s.name):
		return snapshot{}, fmt.Errorf("endpoints: %s %v: %w: %w", verb, s, errConflict, err)
	case err != nil:
		return snapshot{}, accessError(verb, s, "leases", coordinationv1.GroupName, err)
	}
	s.born = born
	next := snapshot{incarnation: old.incarnation, entries: maps.Clone(old.entries)}
	next.entries[s.name] = entryOf(l)
	return next, nil
}

// whose says what to do about a Lease of the own name that was not in the list.
func (s *leases) whose(ctx context.Context) error {
	l, err := s.client.CoordinationV1().Leases(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case kube.Absent(err, coordinationv1.Resource("leases"), s.name), err == nil && s.ours(l):
		return fmt.Errorf("endpoints: create %v: %w", s, errConflict)
	case err != nil:
		return accessError("get", s, "leases", coordinationv1.GroupName, err)
	}
	return fmt.Errorf("endpoints: create %v: %w: it lacks the labels %v", s, ErrForeign, s.labels())
}

func (s *leases) mine(e entry) bool { return !s.born.IsZero() && e.created.Equal(s.born) }

// remove deletes Leases, each as it was read. One that somebody else has deleted meanwhile is gone as well.
func (s *leases) remove(ctx context.Context, old snapshot, keys []string) (next snapshot, removed []string, err error) {
	next = snapshot{incarnation: old.incarnation, entries: maps.Clone(old.entries)}
	for _, key := range keys {
		l := old.entries[key].raw.(*coordinationv1.Lease)
		err := s.client.CoordinationV1().Leases(s.namespace).Delete(ctx, key, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion},
		})
		about := "Lease " + s.namespace + "/" + key
		switch {
		case kube.Absent(err, coordinationv1.Resource("leases"), key):
		case apierrors.IsConflict(err):
			return next, removed, fmt.Errorf("endpoints: delete %s: %w: %w", about, errConflict, err)
		case err != nil:
			return next, removed, accessError("delete", about, "leases", coordinationv1.GroupName, err)
		default:
			removed = append(removed, key)
		}
		delete(next.entries, key)
	}
	return next, removed, nil
}
