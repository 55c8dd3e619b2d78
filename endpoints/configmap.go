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
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

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

func (c ConfigMapStore) open(client kubernetes.Interface, config Config) (store, []string) {
	s := &configMap{
		client: client.CoreV1().ConfigMaps(c.Namespace), endpoints: map[string]Endpoint{},
		name: types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
	}
	for _, e := range config.endpoints() {
		s.endpoints[entryKey(e.Address, e.Port.Number)] = e
	}
	s.keys = slices.Sorted(maps.Keys(s.endpoints))
	return s, s.keys
}

func (c ConfigMapStore) rights() []kube.Right {
	return kube.RightsOn(configMapKind.resource, c.Namespace, c.Name, "get", "patch", "create")
}

// configMap is an open ConfigMapStore.
type configMap struct {
	client    typedcorev1.ConfigMapInterface
	name      types.NamespacedName
	keys      []string // of this instance, sorted
	endpoints map[string]Endpoint
}

func (s *configMap) resolution() time.Duration { return time.Second }

func (s *configMap) read(ctx context.Context) (snapshot, error) {
	m, err := s.client.Get(ctx, s.name.Name, metav1.GetOptions{})
	err = kube.Named(m, s.name.Name, err)
	switch {
	case configMapKind.absent(err, s.name):
		return snapshot{}, nil
	case err != nil:
		return snapshot{}, configMapKind.failed(ctx, "get", s.name, err)
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
	data := map[string]string{}
	for _, key := range s.keys {
		data[key] = renewed(old.entries[key], s.endpoints[key], h)
	}
	if err := s.fits(old, data); err != nil {
		return snapshot{}, err
	}
	if old.incarnation != "" {
		return s.patch(ctx, old, data)
	}
	m, err := s.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name}, Data: data,
	}, metav1.CreateOptions{})
	if err = kube.Named(m, s.name.Name, err); err != nil {
		return snapshot{}, configMapKind.failed(ctx, "create", s.name, err)
	}
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
		after, err := s.patch(ctx, old, data)
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
func (s *configMap) patch(ctx context.Context, old snapshot, data map[string]string) (snapshot, error) {
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
		return snapshot{}, fmt.Errorf("endpoints: patch ConfigMap %v: %w", s.name, err)
	}
	m, err := s.client.Patch(ctx, s.name.Name, types.JSONPatchType, body, metav1.PatchOptions{})
	err = kube.Named(m, s.name.Name, err)
	switch {
	case err == nil:
		return snapshotOf(m), nil
	case tooLarge(err):
		err = fmt.Errorf("endpoints: refresh this instance's entry in ConfigMap %v: %w: %w", s.name, ErrFull, err)
	case apierrors.IsInvalid(err): // a test has failed
		err = fmt.Errorf("endpoints: patch ConfigMap %v: %w: %w", s.name, errConflict, err)
	default:
		err = configMapKind.failed(ctx, "patch", s.name, err)
	}
	return snapshot{}, err
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
		return fmt.Errorf("endpoints: enter %s into ConfigMap %v: %w: it has %d bytes in %d entries, of at most %d: "+
			"remove what does not belong there, or use a LeaseStore",
			strings.Join(s.keys, ", "), s.name, ErrFull, size, len(old.entries), maxConfigMap)
	}
	return nil
}

// value holds the fields of a [ConfigMapStore] entry that this package reads.
type value struct {
	Port
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	UpdateTimestamp   metav1.Time `json:"updateTimestamp"`
	Incarnation       *author     `json:"incarnation,omitempty"`
}

// author is the incarnation that wrote an entry, with the creation timestamp that it wrote.
// Versions without this field keep it when they overwrite an entry, but write another timestamp.
type author struct {
	Name              string      `json:"name"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

// incarnation returns the incarnation of the process that wrote the entry, or "" if it gave none.
func (v value) incarnation() string {
	if v.Incarnation == nil || !v.Incarnation.CreationTimestamp.Equal(&v.CreationTimestamp) {
		return ""
	}
	return v.Incarnation.Name
}

// fields are the names of the fields that this package writes.
var fields = []string{"name", "port", "protocol", "appProtocol", "creationTimestamp", "updateTimestamp", "incarnation"}

// parseEntry parses the value of a key. A malformed entry has a problem and no endpoint.
func parseEntry(key, text string) entry {
	e := entry{mark: text, raw: text}
	address, port, err := parseEntryKey(key)
	if err != nil {
		e.problem = err
		return e
	}
	var v value
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		e.problem = err
		return e
	}
	e.created, e.incarnation = v.CreationTimestamp.Time, v.incarnation()
	if v.Protocol == "" {
		v.Protocol = corev1.ProtocolTCP
	}
	endpoint := Endpoint{address, v.Port}
	switch e.problem = endpoint.problem(); {
	case e.problem != nil:
	case v.Number != port:
		e.problem = fmt.Errorf("port is %d, not %d as in the key", v.Number, port)
	case v.UpdateTimestamp.IsZero():
		e.problem = errors.New("updateTimestamp is missing")
	default:
		e.endpoints = []Endpoint{endpoint}
	}
	return e
}

// renewed returns the next value of one of this instance's entries. It keeps unknown fields.
func renewed(old entry, endpoint Endpoint, h heartbeat) string {
	all := map[string]json.RawMessage{}
	var before value
	if text, ok := old.raw.(string); ok {
		if json.Unmarshal([]byte(text), &all) != nil || all == nil {
			all = map[string]json.RawMessage{} // not an entry: overwrite it
		}
		_ = json.Unmarshal([]byte(text), &before) // best effort: the entry may be malformed
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
		return slices.ContainsFunc(fields, func(ours string) bool { return strings.EqualFold(name, ours) })
	})
	next := value{
		Port:              endpoint.Port,
		CreationTimestamp: metav1.NewTime(latestCreation(h.born, before.CreationTimestamp.Time).UTC()),
		UpdateTimestamp:   metav1.NewTime(nextTimestamp(h.wall, before.UpdateTimestamp.Time, time.Second)),
	}
	if h.incarnation != "" {
		next.Incarnation = &author{h.incarnation, next.CreationTimestamp}
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil {
		text, err = json.Marshal(all)
	}
	if err != nil {
		panic(err) // cannot fail: strings, numbers and times of this century
	}
	return string(text)
}
