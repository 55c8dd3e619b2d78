package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// ConfigMapStore is one ConfigMap for all instances of a Service, with an entry for each address
// and port:
//
//	ip-192-168-0-3-443: '{"name":"https","port":443,"protocol":"TCP",
//	                      "creationTimestamp":"2026-11-21T10:00:00Z","updateTimestamp":"2026-11-21T10:07:30Z"}'
//
// It is easy to inspect and needs rights on one object only. It holds 1 MiB, about 6,000 entries
// ([ErrFull]). Because every heartbeat rewrites it, a [LeaseStore] is better for hundreds of
// instances. Heartbeats keep unknown fields of an entry.
type ConfigMapStore struct {
	// Namespace of the ConfigMap. Default: that of the Service.
	Namespace string
	// Name of the ConfigMap, which is created if it does not exist. Default: the Service's name and
	// "-endpoints", in another namespace than the Service's prefixed with the Service's namespace and a
	// dot. Two Services must not share one, because their instances would be mistaken for each other's.
	Name string
}

// maxConfigMap bounds the size of a ConfigMap's values, in bytes.
const maxConfigMap = 1 << 20

func (c ConfigMapStore) withDefaults(config Config) Store {
	if c.Namespace == "" {
		c.Namespace = config.Namespace
	}
	if c.Name == "" {
		c.Name = config.Service + "-endpoints"
		if c.Namespace != config.Namespace { // where a Service of that name in another namespace may also register
			c.Name = config.Namespace + "." + c.Name
		}
	}
	return c
}

func (c ConfigMapStore) problems(config Config) []error {
	if config.Namespace == "" || config.Service == "" {
		return nil // config.validate reports that
	}
	var errs []error
	for _, problem := range validation.IsDNS1123Label(c.Namespace) {
		errs = append(errs, fmt.Errorf("ConfigMapStore.Namespace: %s (got %q)", problem, c.Namespace))
	}
	for _, problem := range validation.IsDNS1123Subdomain(c.Name) {
		errs = append(errs, fmt.Errorf("ConfigMapStore.Name: %s (got %q)", problem, c.Name))
	}
	if c.Name == config.Settings && c.Namespace == config.Namespace {
		errs = append(errs, fmt.Errorf("ConfigMapStore.Name: must be another ConfigMap than Settings (got %q)", c.Name))
	}
	seen := map[int32]bool{}
	for _, p := range config.Ports {
		if seen[p.Number] {
			errs = append(errs, fmt.Errorf("ConfigMapStore: needs Ports that differ in Number, by which it names "+
				"entries; a LeaseStore does not (got %d twice)", p.Number))
		}
		seen[p.Number] = true
	}
	return errs
}

func (c ConfigMapStore) open(client kubernetes.Interface, config Config) store {
	s := &configMap{
		client: client, name: types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
		endpoints: map[string]Endpoint{},
	}
	for _, e := range config.endpoints() {
		s.endpoints[entryKey(e.Address, e.Port.Number)] = e
	}
	s.keys = slices.Sorted(maps.Keys(s.endpoints))
	return s
}

// configMap is an open ConfigMapStore.
type configMap struct {
	client    kubernetes.Interface
	name      types.NamespacedName
	keys      []string // of this instance, sorted
	endpoints map[string]Endpoint
	born      time.Time // creation timestamp that this process writes; zero before its first write
}

func (s *configMap) own() []string { return s.keys }

func (s *configMap) String() string { return "ConfigMap " + s.name.String() }

func (s *configMap) read(ctx context.Context) (snapshot, error) {
	m, err := s.client.CoreV1().ConfigMaps(s.name.Namespace).Get(ctx, s.name.Name, metav1.GetOptions{})
	err = kube.Named(m, s.name.Name, err)
	switch {
	case configMaps.absent(err, s.name.Name):
		return snapshot{}, nil
	case err != nil:
		return snapshot{}, configMaps.failed(ctx, "get", s.name, err)
	}
	return snapshotOf(m), nil
}

// withoutUID is the incarnation of a ConfigMap in a fake clientset, which sets no UID.
const withoutUID = "without a UID"

func snapshotOf(m *corev1.ConfigMap) snapshot {
	s := snapshot{incarnation: string(m.UID), version: m.ResourceVersion, entries: make(map[string]entry, len(m.Data))}
	if s.incarnation == "" {
		s.incarnation = withoutUID
	}
	for key, value := range m.Data {
		s.entries[key] = parseEntry(key, value)
	}
	return s
}

// refresh writes only this instance's entries, and only if they are as they were read, so a write
// that arrives after their removal does not restore them. It does not depend on the resourceVersion
// and thus never conflicts with heartbeats of other instances.
func (s *configMap) refresh(ctx context.Context, old snapshot, h heartbeat) (snapshot, error) {
	data, born := map[string]string{}, s.born
	if born.IsZero() {
		born = s.newCreation(old, h.wall)
	}
	for _, key := range s.keys {
		data[key] = renewed(old.entries[key], s.endpoints[key], born, h)
	}
	if err := s.fits(old, data); err != nil {
		return snapshot{}, err
	}
	if old.incarnation == "" {
		return s.create(ctx, data, born)
	}
	next, err := s.patch(ctx, "refresh this instance's entry in", old, data)
	if err == nil {
		s.born = born
	}
	return next, err
}

// newCreation returns a creation timestamp that no earlier process with the same address and port
// has had.
func (s *configMap) newCreation(old snapshot, wall time.Time) time.Time {
	var last time.Time
	for _, key := range s.keys {
		if created := old.entries[key].created; created.After(last) {
			last = created
		}
	}
	return nextTimestamp(wall, last, time.Second)
}

func (s *configMap) mine(e entry) bool { return !s.born.IsZero() && e.created.Equal(s.born) }

func (s *configMap) create(ctx context.Context, data map[string]string, born time.Time) (snapshot, error) {
	m, err := s.client.CoreV1().ConfigMaps(s.name.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name}, Data: data,
	}, metav1.CreateOptions{})
	err = kube.Named(m, s.name.Name, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return snapshot{}, fmt.Errorf("endpoints: create %v: %w", s, errConflict)
	case err != nil:
		return snapshot{}, configMaps.failed(ctx, "create", s.name, err)
	}
	s.born = born
	return snapshotOf(m), nil
}

// maxRemovals bounds the entries that one request removes. The API server accepts 10,000
// operations, and one entry takes two.
const maxRemovals = 4000

func (s *configMap) remove(ctx context.Context, old snapshot, keys []string) (next snapshot, removed []string,
	err error,
) {
	next = old
	for some := range slices.Chunk(keys, maxRemovals) {
		data := map[string]string{}
		for _, key := range some {
			data[key] = ""
		}
		// from old, not from next, which may contain later heartbeats
		after, err := s.patch(ctx, "remove an entry from", old, data)
		if err != nil {
			return next, removed, err
		}
		next, removed = after, append(removed, some...)
	}
	return next, removed, nil
}

// operation is an operation of JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch sets these keys, or removes those with an empty value, if they are as they were read. The
// API server applies all of that or nothing, while other keys may change.
func (s *configMap) patch(ctx context.Context, deed string, old snapshot, data map[string]string) (snapshot, error) {
	var patch []operation
	if len(old.entries) == 0 { // there may be no data to add to
		if old.version != "" {
			patch = append(patch, operation{"test", "/metadata/resourceVersion", old.version})
		}
		patch = append(patch, operation{"add", "/data", map[string]string{}})
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		path := "/data/" + key // keys contain neither ~ nor /
		var standing any       // nil if the key must not exist
		if e, exists := old.entries[key]; exists {
			standing = e.raw
		}
		if len(old.entries) > 0 {
			patch = append(patch, operation{"test", path, standing})
		}
		if value := data[key]; value != "" {
			patch = append(patch, operation{"add", path, value})
		} else {
			patch = append(patch, operation{Op: "remove", Path: path})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return snapshot{}, fmt.Errorf("endpoints: %s %v: %w", deed, s, err)
	}
	m, err := s.client.CoreV1().ConfigMaps(s.name.Namespace).Patch(ctx, s.name.Name, types.JSONPatchType, body,
		metav1.PatchOptions{})
	err = kube.Named(m, s.name.Name, err)
	switch {
	case tooLarge(err):
		return snapshot{}, fmt.Errorf("endpoints: %s %v: %w: %w", deed, s, ErrFull, err)
	case configMaps.absent(err, s.name.Name), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return snapshot{}, fmt.Errorf("endpoints: %s %v: %w: %w", deed, s, errConflict, err)
	case err != nil:
		return snapshot{}, configMaps.failed(ctx, "patch", s.name, err)
	}
	return snapshotOf(m), nil
}

// tooLarge reports whether the API server refused an object for its size.
func tooLarge(err error) bool {
	var status apierrors.APIStatus
	if !kube.Stated(err) || !errors.As(err, &status) { // a proxy may also find a request too large
		return false
	}
	if status.Status().Code == http.StatusRequestEntityTooLarge {
		return true
	}
	details := status.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeTooLong
	})
}

// fits returns ErrFull if the ConfigMap has no room for our entries. The API server may still
// refuse them, because it also counts other data.
func (s *configMap) fits(old snapshot, data map[string]string) error {
	size, grown := 0, 0
	for _, e := range old.entries {
		size += len(e.raw.(string))
	}
	for key, value := range data {
		grown += len(value)
		if e, exists := old.entries[key]; exists {
			grown -= len(e.raw.(string))
		}
	}
	if grown > 0 && size+grown > maxConfigMap {
		return fmt.Errorf("endpoints: enter %s into %v: %w: it has %d bytes in %d entries, of at most %d: remove "+
			"what does not belong there, or use a LeaseStore",
			strings.Join(s.keys, ", "), s, ErrFull, size, len(old.entries), maxConfigMap)
	}
	return nil
}
