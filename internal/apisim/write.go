package apisim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func dryRun(query url.Values) bool { return slices.Contains(query["dryRun"], metav1.DryRunAll) }

// payload is the body of a request.
type payload struct {
	encoding
	raw []byte
}

func payloadOf(r *http.Request, body []byte) payload {
	if r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf {
		return payload{inProtobuf{}, body}
	}
	return payload{inJSON{}, body}
}

// decode reads the object in a body, which has to be the target's.
func decode(t target, sent payload) (*Object, status) {
	o, err := sent.decode(sent.raw)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("object does not parse: %v", err))
	}
	if o.kind != t.gvk() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", o.kind.Kind,
			o.kind.GroupVersion(), t.Kind))
	}
	if ns := o.GetNamespace(); ns != "" && ns != t.namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent " +
			"on the request")
	}
	if t.name != "" && o.GetName() != t.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the "+
			"URL (%s)", o.GetName(), t.name))
	}
	o.SetNamespace(t.namespace)
	return o, nil
}

func (s *Server) create(t target, sent payload, dry bool) (*Object, status) {
	o, err := decode(t, sent)
	if err != nil {
		return nil, err
	}
	return s.insert(t, o, dry)
}

func (s *Server) insert(t target, o *Object, dry bool) (*Object, status) {
	if o.GetResourceVersion() != "" {
		return nil, failure(http.StatusInternalServerError, "",
			"resourceVersion should not be set on objects to be created")
	}
	s.data.created++
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05s", o.GetGenerateName(), strconv.FormatInt(int64(s.data.created), 36)))
	}
	t.name = o.GetName()
	if s.data.objects[t.key()] != nil {
		return nil, apierrors.NewAlreadyExists(t.group(), t.name)
	}
	o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012d", s.lot, s.data.created)))
	o.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if errs := problems(t, o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(t.kind(), t.name, errs)
	}
	if t.Status && !t.StatusAtCreation {
		o = o.copyTree()
		delete(o.Content(), "status")
	}
	if dry {
		return o, nil
	}
	return s.store(t, o), nil
}

func (s *Server) update(t target, sent payload, dry bool) (o *Object, created bool, err status) {
	if o, err = decode(t, sent); err != nil {
		return nil, false, err
	}
	old := s.data.objects[t.key()]
	switch {
	case old == nil && !t.CreateOnUpdate:
		return nil, false, apierrors.NewNotFound(t.group(), t.name)
	case old == nil && o.GetUID() != "":
		return nil, false, uidConflict(t, o.GetUID(), "")
	case old == nil:
		o.SetResourceVersion("")
		o, err = s.insert(t, o, dry)
		return o, err == nil, err
	}
	o, err = s.replace(t, old, o, dry)
	return o, false, err
}

// problems returns the rules that an object breaks by itself.
func problems(t target, o *Object) field.ErrorList {
	return append(validation.ValidateObjectMetaAccessor(o, t.Namespaced, validation.NameIsDNSSubdomain,
		field.NewPath("metadata")), oversize(o)...)
}

// maxConfigMap is how many bytes the values of a ConfigMap may have.
const maxConfigMap = 1 << 20

func oversize(o *Object) field.ErrorList {
	if o.kind.Kind != "ConfigMap" {
		return nil
	}
	size := 0
	content := o.Content()
	data, _ := content["data"].(map[string]any)
	for _, value := range data {
		text, _ := value.(string)
		size += len(text)
	}
	binary, _ := content["binaryData"].(map[string]any)
	for _, value := range binary {
		text, _ := value.(string)
		size += base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(text, "=")))
	}
	if size > maxConfigMap {
		return field.ErrorList{field.TooLong(field.NewPath(""), "", maxConfigMap)}
	}
	return nil
}

// replace stores o in place of old if it is its successor.
func (s *Server) replace(t target, old, o *Object, dry bool) (*Object, status) {
	if o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return nil, uidConflict(t, o.GetUID(), old.GetUID())
	}
	if v := o.GetResourceVersion(); v != "" && v != "0" && v != old.GetResourceVersion() {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return nil, failure(http.StatusInternalServerError, "", err.Error())
		}
		return nil, apierrors.NewConflict(t.group(), t.name,
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if v := o.GetResourceVersion(); t.RequireVersion && (v == "" || v == "0") {
		return nil, apierrors.NewInvalid(t.kind(), t.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), v, "must be specified for an update"),
		})
	}
	if t.Status {
		o = part(t, old, o)
	}
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	if o.GetDeletionTimestamp() == nil || old.GetDeletionTimestamp() != nil {
		o.SetDeletionTimestamp(old.GetDeletionTimestamp())
		o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	errs := oversize(o)
	if !sameMetadata(old, o) { // the old one is valid
		errs = append(validation.ValidateObjectMetaAccessorUpdate(o, old, field.NewPath("metadata")), problems(t, o)...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(t.kind(), t.name, errs)
	}
	switch {
	case dry:
		return o, nil
	case old.GetDeletionTimestamp() != nil && seconds(old.GetDeletionGracePeriodSeconds()) == 0 &&
		len(o.GetFinalizers()) == 0:
		s.store(t, nil)
		return o, nil
	case same(old, o):
		return old, nil
	}
	return s.store(t, o), nil
}

// part returns what a request for one of the two parts of an object makes of it: o's status and all
// else of old, or vice versa.
func part(t target, old, o *Object) *Object {
	kept, from := o, old
	if t.status {
		kept, from = old, o
	}
	kept = kept.copyTree()
	if status, ok := from.Content()["status"]; ok {
		kept.Content()["status"] = status
	} else {
		delete(kept.Content(), "status")
	}
	return kept
}

// deleteOptions reads the body of a deletion, which may be empty.
func deleteOptions(sent payload, query url.Values) (options metav1.DeleteOptions, _ status) {
	if len(sent.raw) > 0 {
		var err error
		if options, err = sent.options(sent.raw); err != nil {
			return options, apierrors.NewBadRequest(err.Error())
		}
	}
	if dryRun(query) {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options, nil
}

func (s *Server) delete(t target, options metav1.DeleteOptions) (any, status) {
	old := s.data.objects[t.key()]
	if old == nil {
		return nil, apierrors.NewNotFound(t.group(), t.name)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, uidConflict(t, *p.UID, old.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(t.group(), t.name,
				fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in "+
					"record (%s)", *p.ResourceVersion, old.GetResourceVersion()))
		}
	}
	if slices.Contains(options.DryRun, metav1.DryRunAll) {
		return success(t, old), nil
	}
	if t.Graceful {
		return s.end(t, old, options), nil
	}
	o := old.copy()
	if p := options.PropagationPolicy; p != nil { // the latest policy counts, also when the deletion has begun
		setPolicy(o, *p)
	}
	if len(o.GetFinalizers()) == 0 {
		return success(t, s.store(t, nil)), nil
	}
	if old.GetDeletionTimestamp() == nil {
		o.SetDeletionTimestamp(&metav1.Time{Time: time.Now().Truncate(time.Second)})
		o.SetDeletionGracePeriodSeconds(new(int64))
	}
	if same(old, o) {
		return old, nil
	}
	return s.store(t, o), nil
}

// setPolicy sets the finalizers that determine what the collector does with dependents.
func setPolicy(o *Object, policy metav1.DeletionPropagation) {
	finalizers := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	switch policy {
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	}
	if !sets.New(finalizers...).Equal(sets.New(o.GetFinalizers()...)) {
		o.SetFinalizers(finalizers)
	}
}

func (s *Server) deleteCollection(t target, query url.Values, options metav1.DeleteOptions) (any, status) {
	selected, err := selectionOf(t, query)
	if err != nil {
		return nil, err
	}
	for _, k := range sorted(s.data.objects, selected) {
		each := t
		each.namespace, each.name = k.namespace, k.name
		if _, err := s.delete(each, options); err != nil {
			return nil, err
		}
	}
	return list{target: t}, nil
}

// store puts o in place of the target, or deletes it, and notifies the watches.
func (s *Server) store(t target, o *Object) *Object {
	stored, c := s.data.put(t.key(), o)
	for w := range s.watches {
		w.tell(c)
	}
	return stored
}

func uidConflict(t target, want, got types.UID) status {
	return apierrors.NewConflict(t.group(), t.name,
		fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", want, got))
}

// success returns the answer to a deletion that has left nothing.
func success(t target, o *Object) *metav1.Status {
	return onTheWire(metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: t.name, Group: t.Group, Kind: t.GroupVersionResource.Resource,
			UID: o.GetUID(),
		},
	})
}
