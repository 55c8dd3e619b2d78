package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// do sends a write to an existing object within Shard.Do.
func (p *Proxy) do(w http.ResponseWriter, r *http.Request, e *exchange) {
	data, ok := p.body(w, r, e)
	if !ok {
		return
	}
	o := p.cached(e.q)
	if o == nil {
		var err error
		switch o, err = p.live(r.Context(), e.q); {
		case apierrors.IsNotFound(err) && (isApply(r) || e.q.verb == "update" && e.q.subresource == ""):
			p.create(w, r, e, data)
			return
		case err != nil:
			p.failed(w, e, err)
			return
		}
	}
	if e.role == child && !p.follows(e.q, o) {
		p.reverse.ServeHTTP(w, withBody(r, data))
		return
	}
	p.within(w, r, e, o, func(r *http.Request, current objectMeta) (*http.Request, bool, error) {
		return p.kept(r, e, data, current)
	})
}

// follows reports whether a child is the ring's: it has an owner that is.
func (p *Proxy) follows(q request, o *metav1.PartialObjectMetadata) bool {
	return p.config.Shard.Stamp(p.typed(q, o.DeepCopy())) == nil
}

// typed returns a copy of an object with its kind, which decoded metadata lacks or has as
// PartialObjectMetadata. o may be that of a cache, which must not change.
func (p *Proxy) typed(q request, o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	typed := *o
	typed.SetGroupVersionKind(p.kinds[q.resource.GroupResource()])
	return &typed
}

// doEach deletes the objects of a collection one by one, because the API server would go on with the
// rest while one of them moves to another shard. What has moved meanwhile is not this shard's.
func (p *Proxy) doEach(w http.ResponseWriter, r *http.Request, e *exchange) {
	data, ok := p.body(w, r, e)
	if !ok {
		return
	}
	query := r.URL.Query()
	options := metav1.ListOptions{LabelSelector: p.selecting(e.role, query), FieldSelector: query.Get("fieldSelector")}
	for _, selection := range []string{
		"labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch",
	} {
		query.Del(selection)
	}
	r = withQuery(r, query)
	objects := p.objects.Resource(e.q.resource).Namespace(e.q.namespace)
	all := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		return objects.List(ctx, page)
	})
	var failed *buffered
	err := all.EachListItem(r.Context(), options, func(item runtime.Object) error {
		o := item.(*metav1.PartialObjectMetadata)
		one := &exchange{proxy: p, q: e.q, role: e.role, began: time.Now()}
		one.q.verb, one.q.name = "delete", o.Name
		r := r.Clone(context.WithValue(r.Context(), exchangeKey{}, one))
		r.URL.Path, r.URL.RawPath = strings.TrimSuffix(r.URL.Path, "/")+"/"+o.Name, ""
		result := newBuffered()
		p.within(result, r, one, o, func(r *http.Request, current objectMeta) (*http.Request, bool, error) {
			r, err := deletionOf(r, data, current.uid)
			return r, false, err
		})
		if result.code >= http.StatusMultipleChoices && result.code != http.StatusNotFound && one.outcome != Refused {
			failed = result
			return errStopped
		}
		return nil
	})
	switch {
	case failed != nil:
		failed.sendTo(w)
	case err != nil:
		p.failed(w, e, err)
	default:
		answer(w, metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess})
	}
}

// errStopped ends a loop over a list.
var errStopped = errors.New("stopped")

// stamp sends the creation of a child within Shard.Do for its root.
func (p *Proxy) stamp(w http.ResponseWriter, r *http.Request, e *exchange) {
	if data, ok := p.body(w, r, e); ok {
		p.create(w, r, e, data)
	}
}

// create sends a creation, or an apply that creates.
func (p *Proxy) create(w http.ResponseWriter, r *http.Request, e *exchange, data []byte) {
	var child *metav1.PartialObjectMetadata
	stamped, err := p.editRequest(r, data, func(m *objectMeta) error {
		keep(m, objectMeta{}) // marks that were copied
		if e.role == root {
			return nil
		}
		o := p.typed(e.q, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: e.q.namespace, Name: m.name, Labels: withoutNil(m.labels), OwnerReferences: m.owners,
		}})
		if p.config.Shard.Stamp(o) != nil {
			return nil
		}
		m.labels = o.Labels
		child = o.DeepCopy()
		delete(child.Labels, api.ShardLabel(p.lease.Ring())) // as long as it does not exist, no cache shows it
		return nil
	})
	switch {
	case err != nil:
		p.invalid(w, e, err)
	case child == nil: // a root, or not the ring's
		p.reverse.ServeHTTP(w, withBody(r, stamped))
	case e.q.verb == "create" && p.moves.mayHave(child.OwnerReferences, e.q.resource.GroupResource()):
		p.refused(w, e, child, errMoved)
	default:
		p.within(w, r, e, child, func(r *http.Request, _ objectMeta) (*http.Request, bool, error) {
			return withBody(r, stamped), false, nil
		})
	}
}

// attempts bounds how often a write that names no version is sent, each time with the marks of the
// present one.
const attempts = 5

// within sends a write within Shard.Do, and answers with why it may not be sent. prepare makes the
// request from the object's metadata; pinned means that the request names the version of that
// metadata although the program's does not.
func (p *Proxy) within(w http.ResponseWriter, r *http.Request, e *exchange, o *metav1.PartialObjectMetadata,
	prepare func(r *http.Request, current objectMeta) (_ *http.Request, pinned bool, err error),
) {
	result, admitted := newBuffered(), false
	work := func(ctx context.Context) error {
		admitted = true
		current, isPresent := metadataOf(o), false
		for attempt := 1; ; attempt++ {
			prepared, pinned, err := prepare(r.WithContext(ctx), current)
			if errors.Is(err, errStale) && !isPresent {
				if current, err = p.present(ctx, e.q, o.UID); err != nil {
					p.failed(result, e, err)
					return nil
				}
				isPresent = true
				prepared, pinned, err = prepare(r.WithContext(ctx), current)
			}
			switch {
			case errors.Is(err, errStale):
				p.failed(result, e, conflict(e.q, errStale))
				return nil
			case err != nil:
				p.invalid(result, e, err)
				return nil
			}
			result = newBuffered()
			p.reverse.ServeHTTP(result, prepared)
			if !pinned || attempt == attempts ||
				result.code != http.StatusConflict && result.code != http.StatusUnprocessableEntity {
				return nil
			}
			if current, err = p.present(ctx, e.q, o.UID); err != nil {
				return nil // the program gets the conflict
			}
		}
	}
	err := p.config.Shard.Do(r.Context(), p.typed(e.q, o), work)
	for attempt := 1; errors.Is(err, shard.ErrNotYet) && attempt < attempts; attempt++ {
		newer := p.cached(e.q) // o may have changed before Do has looked at it
		if newer == nil || newer.UID != o.UID || newer.ResourceVersion == o.ResourceVersion {
			break
		}
		o = newer
		err = p.config.Shard.Do(r.Context(), p.typed(e.q, o), work)
	}
	if admitted {
		result.sendTo(w)
		return
	}
	p.refused(w, e, o, err)
}

// errMoved means that the program may not see yet what another shard has created for the owner of a child.
var errMoved = fmt.Errorf("%w: its owner has just moved here with children", shard.ErrNotYet)

// errStale means that a write names another version than that of the metadata.
var errStale = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// errReplaced means that the object that Do has admitted is gone. What has its name now may be another
// shard's.
var errReplaced = errors.New("the object has been deleted, and another has its name")

// present reads the metadata of the object with this UID from the API server.
func (p *Proxy) present(ctx context.Context, q request, uid types.UID) (objectMeta, error) {
	o, err := p.live(ctx, q)
	switch {
	case err != nil:
		return objectMeta{}, err
	case o.UID != uid:
		return objectMeta{}, conflict(q, errReplaced)
	}
	return metadataOf(o), nil
}

// conflict is the error of an API server for a write that must not be carried out.
func conflict(q request, err error) error {
	return apierrors.NewConflict(q.resource.GroupResource(), q.name, err)
}

// kept returns a write that leaves the marks of the object as they are.
func (p *Proxy) kept(r *http.Request, e *exchange, data []byte, current objectMeta) (
	_ *http.Request, pinned bool, err error,
) {
	switch {
	case e.q.verb == "delete":
		r, err := deletionOf(r, data, current.uid)
		return r, false, err
	case len(data) == 0 || e.q.subresource == "scale" || e.q.verb == "create":
		return withBody(r, data), false, nil
	}
	switch {
	case e.q.verb == "update":
		data, err = p.editRequest(r, data, func(m *objectMeta) error {
			switch m.resourceVersion {
			case "":
				m.resourceVersion, pinned = current.resourceVersion, true
			case current.resourceVersion:
			default:
				return errStale
			}
			keep(m, current)
			m.uid = cmp.Or(m.uid, current.uid)
			return nil
		})
	case isApply(r):
		data, err = p.editRequest(r, data, func(m *objectMeta) error {
			keep(m, objectMeta{})
			m.uid = cmp.Or(m.uid, current.uid)
			if e.role == child {
				m.labels = withoutNil(m.labels)
				m.labels[api.ShardLabel(p.lease.Ring())] = p.lease.Identity()
			}
			return nil
		})
	case isJSONPatch(r):
		data, pinned, err = keepInJSONPatch(data, current)
	default:
		data, pinned, err = keepInMergePatch(data, current)
	}
	return withBody(r, data), pinned, err
}

func isApply(r *http.Request) bool {
	return isPatch(r, types.ApplyYAMLPatchType, types.ApplyCBORPatchType)
}

func isJSONPatch(r *http.Request) bool { return isPatch(r, types.JSONPatchType) }

func isPatch(r *http.Request, kinds ...types.PatchType) bool {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.Method == http.MethodPatch && slices.Contains(kinds, types.PatchType(media))
}

// editRequest edits the object in the body of a request.
func (p *Proxy) editRequest(r *http.Request, data []byte, f editor) ([]byte, error) {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		contentType = "application/json"
	}
	c := codecOf(contentType)
	if c == nil {
		return nil, errors.New("Content-Type: must be JSON, YAML, CBOR or Kubernetes' Protocol Buffers")
	}
	return c.edit(data, f)
}

// body reads the body of a write, or answers why it cannot.
func (p *Proxy) body(w http.ResponseWriter, r *http.Request, e *exchange) (data []byte, ok bool) {
	data, err := readBody(r)
	switch {
	case errors.Is(err, errTooLarge):
		e.end(Invalid)
		answer(w, failure(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, e.q,
			"the body must have at most %d bytes, as the API server requires", maxBody))
	case err != nil:
		p.invalid(w, e, err)
	default:
		return data, true
	}
	return nil, false
}

func (p *Proxy) invalid(w http.ResponseWriter, e *exchange, err error) {
	e.end(Invalid)
	answer(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, e.q, "body: %v", err))
}

// failed answers with the error of a request of the proxy's own.
func (p *Proxy) failed(w http.ResponseWriter, e *exchange, err error) {
	e.end(Passed)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		answer(w, status.Status())
		return
	}
	answer(w, failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, e.q, "%v", err))
}

// retryAfter is in seconds.
const retryAfter = 1

// refused answers why Do did not admit a write: a conflict if the object is another shard's, which a
// controller takes for a stale copy, or a request to try again.
func (p *Proxy) refused(w http.ResponseWriter, e *exchange, o *metav1.PartialObjectMetadata, err error) {
	switch {
	case errors.Is(err, shard.ErrNotYet) && e.q.verb == "create" && e.q.subresource == "":
		e.end(NotYet)
		// Clients repeat a request by themselves after 429, although what they have read may now show the child.
		answer(w, failure(http.StatusConflict, metav1.StatusReasonConflict, e.q, "%v: read its children again", err))
	case errors.Is(err, shard.ErrNotYet):
		e.end(NotYet)
		status := failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, e.q, "%v", err)
		status.Details.RetryAfterSeconds = retryAfter
		answer(w, status)
	case errors.Is(err, shard.ErrNotMine):
		e.end(Refused)
		of := o.GetLabels()[api.ShardLabel(p.lease.Ring())]
		if of == "" {
			of = "no shard"
		}
		answer(w, failure(http.StatusConflict, metav1.StatusReasonConflict, e.q, "%v: it is with %s", err, of))
	default:
		e.end(Invalid)
		answer(w, failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, e.q, "%v", err))
	}
}
