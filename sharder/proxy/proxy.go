package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Config configures a [Proxy].
type Config struct {
	// Shard decides what the program may write. Required.
	Shard *shard.Shard
	// Upstream is the configuration for the work on the shard's objects, ShardConfig of package
	// replica: the requests of the program are sent with its credentials, within the term. Required.
	Upstream *rest.Config
	// Mapper names the kinds of the resources. Required.
	Mapper meta.RESTMapper
	// Resources are those of the ring. Required.
	Resources []api.Resource

	// ShowMarks passes what the program reads of the ring's resources undecoded, with the labels and
	// annotations of the ring. Default: false, they are hidden.
	ShowMarks bool
	// OwnElection names the Lease, ConfigMap or Endpoints of the program's own leader election, which
	// is then one of this shard's own: every replica leads. Default: none.
	OwnElection types.NamespacedName

	// DryRun sends all writes of the program but those of its election as dry runs, and logs deletions shortly
	// after an object has moved to another shard, at Warn. Default: false.
	DryRun bool

	// Hooks are called when something happens, for metrics.
	Hooks Hooks
	// Logger receives requests that the proxy refuses because it cannot read them, at Warn. Nil: no
	// logs.
	Logger *zap.Logger
}

// Hooks are functions that a [Proxy] calls; each may be nil. They are called synchronously, from
// many goroutines, and must return quickly.
type Hooks struct {
	// OnRequest is called when a request for a resource of the ring was answered, or when the stream
	// that it asked for has begun. took is the time since it came, upstream the part of it that the
	// API server took.
	OnRequest func(resource schema.GroupResource, verb string, outcome Outcome, took, upstream time.Duration)
}

// Outcome is what became of a request.
type Outcome string

const (
	// Passed means that it was sent to the API server.
	Passed Outcome = "passed"
	// Refused means that the object is not this shard's.
	Refused Outcome = "refused"
	// NotYet means that the object may be this shard's soon, or the process is about to end.
	NotYet Outcome = "not_yet"
	// Invalid means that the proxy could not read it.
	Invalid Outcome = "invalid"
)

// Proxy is an http.Handler that passes the requests of a program to the API server, as far as this
// shard may send them. Run must run meanwhile.
type Proxy struct {
	config   Config
	roles    roles
	lease    *shardlease.Lease
	objects  metadata.Interface
	upstream *url.URL
	reverse  *httputil.ReverseProxy
	kinds    map[schema.GroupResource]schema.GroupVersionKind
	caches   map[schema.GroupResource]map[string]cache.SharedIndexInformer // by namespace, or one for all
	election election

	rehearsal rehearsal
	moves     moves
}

// New returns a proxy. The error joins one error for each rule that config breaks.
func New(config Config) (*Proxy, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop()
	}
	lease := config.Shard.Lease()
	p := &Proxy{
		config: config, roles: roles{}, lease: lease, kinds: map[schema.GroupResource]schema.GroupVersionKind{},
		caches:   map[schema.GroupResource]map[string]cache.SharedIndexInformer{},
		election: election{of: config.OwnElection, shard: lease},
		moves:    moves{come: map[types.UID]*arrival{}},
	}
	var err error
	unlimited := rest.CopyConfig(config.Upstream)
	unlimited.RateLimiter, unlimited.QPS, unlimited.Burst = nil, -1, 0
	if p.objects, err = metadata.NewForConfig(unlimited); err != nil {
		return nil, fmt.Errorf("proxy: make a client for metadata: %w", err)
	}
	if p.upstream, _, err = rest.DefaultServerUrlFor(config.Upstream); err != nil {
		return nil, fmt.Errorf("proxy: Upstream: %w", err)
	}
	upstream, err := newTransport(config.Upstream)
	if err != nil {
		return nil, fmt.Errorf("proxy: Upstream: %w", err)
	}
	p.reverse = &httputil.ReverseProxy{
		Transport: upstream, Rewrite: p.rewrite, ModifyResponse: p.modify, ErrorHandler: p.unreachable,
		BufferPool: buffers{}, ErrorLog: log.New(nowhere{}, "", 0),
	}
	for _, r := range config.Resources {
		if err := p.watch(r.GVR, r.Namespaces, root); err != nil {
			return nil, err
		}
		for _, each := range r.Children {
			if err := p.watch(each, r.Namespaces, child); err != nil {
				return nil, err
			}
		}
	}
	lease.OnOutside(func(schema.GroupResource) {}) // what is not the ring's passes outside of Do
	return p, nil
}

func (c Config) validate() error {
	var errs []error
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Shard", c.Shard == nil},
		{"Upstream", c.Upstream == nil},
		{"Mapper", c.Mapper == nil},
		{"Resources", len(c.Resources) == 0},
	} {
		if required.missing {
			errs = append(errs, fmt.Errorf("proxy: %s: required", required.name))
		}
	}
	if (c.OwnElection.Name == "") != (c.OwnElection.Namespace == "") {
		errs = append(errs, fmt.Errorf("proxy: OwnElection: must have a namespace and a name (got %q)", c.OwnElection))
	}
	return errors.Join(errs...)
}

// watch makes the informers of a resource, from which the proxy learns whose an object is.
func (p *Proxy) watch(resource schema.GroupVersionResource, namespaces []string, r role) error {
	at := resource.GroupResource()
	kind, err := p.config.Mapper.KindFor(resource)
	if err != nil {
		return fmt.Errorf("proxy: %s: %w", at, err)
	}
	p.roles[at], p.kinds[at] = r, kind
	if p.caches[at] == nil { // or children of several roots
		p.caches[at] = map[string]cache.SharedIndexInformer{}
	}
	example := &metav1.PartialObjectMetadata{}
	example.SetGroupVersionKind(kind)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if p.caches[at][namespace] != nil {
			continue
		}
		source := shard.ListerWatcher(p.objects.Resource(resource).Namespace(namespace), p.objects)
		p.caches[at][namespace] = p.config.Shard.NewInformerOf(namespace, source, example, 0, cache.Indexers{})
		if r == root {
			p.noteMoves(at, p.caches[at][namespace])
		}
	}
	return nil
}

// Run keeps the proxy informed about the shard's objects until ctx has ended. Call it within the
// work of the replica. It calls ready when everything is known that was stored when it began.
func (p *Proxy) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []cache.SharedIndexInformer
	for _, each := range p.caches {
		all = slices.AppendSeq(all, maps.Values(each))
	}
	ended := make(chan struct{})
	for _, each := range all {
		go func() {
			each.RunWithContext(ctx)
			ended <- struct{}{}
		}()
	}
	synced := make([]cache.InformerSynced, len(all))
	for i, each := range all {
		synced[i] = each.HasSynced
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		ready()
	}
	for range all {
		<-ended
	}
	return ctx.Err()
}

// Objects returns how many objects of each resource of the ring are this shard's, as far as the proxy
// knows.
func (p *Proxy) Objects() map[schema.GroupResource]int {
	counts := map[schema.GroupResource]int{}
	for resource, caches := range p.caches {
		for _, each := range caches {
			counts[resource] += len(each.GetStore().ListKeys())
		}
	}
	return counts
}

// cache returns the one that shows objects of a resource in a namespace, or nil if that is not in the ring.
func (p *Proxy) cache(q request) cache.SharedIndexInformer {
	of := p.caches[q.resource.GroupResource()]
	if all := of[metav1.NamespaceAll]; all != nil {
		return all
	}
	return of[q.namespace]
}

// roleOf returns the role of what a request is about. A program that lists roots of a namespace that is not in
// the ring is shown nothing, because each replica would work on them.
func (p *Proxy) roleOf(q request) role {
	r := p.roles[q.resource.GroupResource()]
	listed := r == root && q.name == "" && q.verb != "create"
	if q.namespace != "" && p.cache(q) == nil && !listed {
		return outside
	}
	return r
}

// cached returns the copy of an object that a cache has, or nil.
func (p *Proxy) cached(q request) *metav1.PartialObjectMetadata {
	from := p.cache(q)
	if from == nil { // no such path
		return nil
	}
	item, ok, _ := from.GetStore().GetByKey(cache.ObjectName{Namespace: q.namespace, Name: q.name}.String())
	if !ok {
		return nil
	}
	return item.(*metav1.PartialObjectMetadata)
}

// live reads an object from the API server.
func (p *Proxy) live(ctx context.Context, q request) (*metav1.PartialObjectMetadata, error) {
	return p.objects.Resource(q.resource).Namespace(q.namespace).Get(ctx, q.name, metav1.GetOptions{})
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{proxy: p, began: time.Now(), q: parse(r)}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
	if p.election.concerns(e.q) {
		if r = p.elect(w, r, e); r == nil {
			return
		}
	}
	e.role = p.roleOf(e.q)
	if p.config.DryRun {
		if r = p.rehearse(w, r, e); r == nil {
			return
		}
	}
	e.hidden = e.role != outside && !p.config.ShowMarks && e.q.verb != "connect"
	switch decide(e.q, e.role) {
	case pass:
		p.reverse.ServeHTTP(w, r)
	case selectOwn:
		p.config.Shard.NoteList(e.q.resource.GroupResource())
		query := r.URL.Query()
		query.Set("labelSelector", p.selecting(e.role, query))
		p.reverse.ServeHTTP(w, withQuery(r, query))
	case do:
		p.do(w, r, e)
	case stamp:
		p.stamp(w, r, e)
	case doEach:
		p.doEach(w, r, e)
	case refuse:
		e.end(Invalid)
		answer(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, e.q,
			"unknown request: %s %s", r.Method, r.URL.Path))
	}
}

// selecting returns the label selector of a program's request and that of the shard's objects, joined. A root that
// this shard must let go of is no longer one of them. A child still is: it may be marked only because its root was
// late, and a program that lost sight of it would create another.
func (p *Proxy) selecting(of role, query url.Values) string {
	own := p.config.Shard.Selector().String()
	if of == root {
		own += ",!" + api.DrainLabel(p.lease.Ring())
	}
	if program := query.Get("labelSelector"); program != "" {
		return program + "," + own
	}
	return own
}

// withQuery returns a copy of a request with another query.
func withQuery(r *http.Request, query url.Values) *http.Request {
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

// exchange is one request of the program and its answer.
type exchange struct {
	proxy    *Proxy
	q        request
	role     role
	began    time.Time
	sent     time.Time // to the API server
	received time.Time // its answer
	hidden   bool      // the answer must not have marks
	edit     editor    // for the answer, beside hide
	outcome  Outcome
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// end reports the outcome, once.
func (e *exchange) end(outcome Outcome) {
	if e.outcome != "" {
		return
	}
	if e.outcome = outcome; e.role == outside {
		return
	}
	if hook := e.proxy.config.Hooks.OnRequest; hook != nil {
		upstream := time.Duration(0)
		if !e.received.IsZero() {
			upstream = e.received.Sub(e.sent)
		}
		hook(e.q.resource.GroupResource(), e.q.verb, outcome, time.Since(e.began), upstream)
	}
}

// rewrite makes the request for the API server: its own credentials come from the transport.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	e := exchangeOf(r.In)
	r.SetURL(p.upstream)
	r.Out.Host = p.upstream.Host
	r.Out.Header.Del("Authorization")
	if e.hidden || e.edit != nil {
		r.Out.Header.Set("Accept", readable(r.In.Header.Get("Accept")))
		r.Out.Header.Del("Accept-Encoding") // the transport decompresses what it has asked for itself
	}
	e.sent = time.Now()
}

// modify hides marks in an answer.
func (p *Proxy) modify(r *http.Response) error {
	e := exchangeOf(r.Request)
	defer e.end(Passed)
	e.received = time.Now()
	edit := e.edit
	switch other := e.edit; {
	case e.hidden && other != nil:
		edit = func(m *objectMeta) error { return errors.Join(other(m), hide(m)) }
	case e.hidden:
		edit = hide
	}
	if edit == nil || r.StatusCode < http.StatusOK || r.StatusCode >= http.StatusMultipleChoices ||
		r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	c := codecOf(r.Header.Get("Content-Type"))
	if c == nil { // such as an error of a proxy on the way
		return nil
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	from := r.Body
	switch e.q.verb {
	case "watch":
		r.Body = edited(from, func(to io.Writer) error { return editStream(to, from, c, edit) })
	case "list":
		r.Body = edited(from, func(to io.Writer) error { return c.editList(to, from, edit) })
	default:
		return editBody(r, c, edit)
	}
	return nil
}

// unreachable answers a request that the API server did not answer.
func (p *Proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r)
	if r.Context().Err() != nil { // err may be its cause
		e.end(NotYet)
		answer(w, failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, e.q,
			"the request was cut off: %v", context.Cause(r.Context())))
		return
	}
	e.end(Passed)
	answer(w, failure(http.StatusBadGateway, metav1.StatusReasonInternalError, e.q, "the API server: %v", err))
}
