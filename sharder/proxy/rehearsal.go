package proxy

import (
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// rehearsal looks for deletions that follow when an object leaves the program's lists.
type rehearsal struct {
	mu   sync.Mutex
	left metav1.Object // the last one, or nil
	at   time.Time
}

const (
	// follows is how long after a move a deletion may be its consequence.
	follows = time.Minute
	// lag is how much later than the program's watch that of the proxy may show the move.
	lag = time.Second
)

// rehearse returns a request as a dry run, or answers that it cannot be one.
func (p *Proxy) rehearse(w http.ResponseWriter, r *http.Request, e *exchange) *http.Request {
	if e.q.verb == "delete" || e.q.verb == "deletecollection" || e.q.subresource == "eviction" {
		asked := time.Now()
		time.AfterFunc(lag, func() { p.warnOfDeletion(e.q, asked) })
	}
	switch e.q.verb {
	case "create", "update", "patch":
		query := r.URL.Query()
		query["dryRun"] = []string{metav1.DryRunAll}
		return withQuery(r, query)
	case "delete", "deletecollection":
		data, ok := p.body(w, r, e)
		if !ok {
			return nil
		}
		r, err := withDeleteOptions(r, data, func(o *metav1.DeleteOptions) { o.DryRun = []string{metav1.DryRunAll} })
		if err != nil {
			p.invalid(w, e, err)
		}
		return r
	case "connect":
		if e.q.subresource == "log" {
			return r
		}
	default:
		if e.q.verb != "" || r.Method == http.MethodGet || r.Method == http.MethodHead {
			return r // it reads, or is refused
		}
	}
	e.end(Invalid)
	answer(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, e.q,
		"it cannot be sent as a dry run: %s %s", r.Method, r.URL.Path))
	return nil
}

// note records that an object leaves the program's lists.
func (r *rehearsal) note(o metav1.Object, log *zap.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > follows {
		log.Info("objects move to other shards: deletions within a minute are logged")
	}
	r.left, r.at = o, time.Now()
}

// warnOfDeletion logs a deletion that may be the consequence of a move.
func (p *Proxy) warnOfDeletion(q request, asked time.Time) {
	p.rehearsal.mu.Lock()
	defer p.rehearsal.mu.Unlock()
	left, after := p.rehearsal.left, asked.Sub(p.rehearsal.at)
	if left == nil || after > follows {
		return
	}
	p.config.Logger.Warn("a deletion followed the move of an object: do not shard a program that deletes because an "+
		"object has moved", zap.Stringer("moved", cache.MetaObjectToName(left)),
		zap.Stringer("resource", q.resource.GroupResource()),
		zap.Stringer("deleted", cache.ObjectName{Namespace: q.namespace, Name: q.name}), zap.Duration("after", after))
}
