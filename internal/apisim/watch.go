package apisim

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// bookmarkInterval is how often a watch that asked for bookmarks gets one.
const bookmarkInterval = time.Minute

// lastBookmark is how long before its end a watch gets one more.
const lastBookmark = 2 * time.Second

// watch is one open stream.
type watch struct {
	target
	selection
	form
	server *Server
	body   *streamBody
	after  int64 // nothing up to this version is sent
}

// watch opens a stream that begins with the initial objects or the missed changes.
func (s *Server) watch(ctx context.Context, c *Client, t target, f form, query url.Values) (*watch, status) {
	if t.name != "" {
		return nil, apierrors.NewMethodNotSupported(t.group(), "watch")
	}
	selected, err := selectionOf(t, query)
	if err != nil {
		return nil, err
	}
	initial := query.Get("sendInitialEvents") == "true"
	if err := checkInitial(query); err != nil {
		return nil, err
	}
	w := &watch{target: t, selection: selected, form: f, server: s, body: newStream(c)}

	version, parseErr := parseVersion(query)
	if parseErr != nil {
		return nil, failure(http.StatusInternalServerError, "", parseErr.Error())
	}
	context.AfterFunc(ctx, func() { w.body.hangUp(ctx.Err()) }) // its end may be unread
	switch {
	case initial || version == 0:
		begin := s.data.version
		if query.Get("resourceVersion") == "0" || !initial { // any version will do
			begin = max(begin-s.behind, s.data.compacted)
		}
		objects, _ := s.data.at(begin)
		for _, k := range sorted(objects, selected) {
			w.send(apiwatch.Added, objects[k])
		}
		later, _ := s.data.since(begin)
		for _, change := range later {
			w.tell(change)
		}
		if initial && query.Get("allowWatchBookmarks") == "true" {
			w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	default:
		changes, known := s.data.since(version)
		if !known {
			expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version,
				s.data.compacted))
			w.body.send(w.failed(expired))
			w.body.end(nil)
			return w, nil
		}
		for _, change := range changes {
			w.tell(change)
		}
		w.after = version // may be in the future
	}
	s.watches[w] = struct{}{}
	w.keep(query)
	return w, nil
}

// hangUp breaks open streams.
func (s *Server) hangUp(which func(*watch) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if which(w) {
			w.body.end(errConnection)
		}
	}
}

// watches reports whether a GET asks for a watch.
func watches(query url.Values) bool {
	watch := query.Get("watch")
	return watch != "" && watch != "false" && watch != "0"
}

// keep ends the stream when its time is over, and sends bookmarks until then.
func (w *watch) keep(query url.Values) {
	var timers []*time.Timer
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	limit := time.Duration(seconds) * time.Second
	if limit > 0 {
		timers = append(timers, time.AfterFunc(limit, func() { w.body.end(nil) }))
	}
	if query.Get("allowWatchBookmarks") == "true" && !w.Uncached {
		bookmark := func() {
			w.server.mu.Lock()
			defer w.server.mu.Unlock()
			w.bookmark(nil)
		}
		var bookmarks *time.Timer
		bookmarks = time.AfterFunc(bookmarkInterval, func() {
			bookmark()
			bookmarks.Reset(bookmarkInterval)
		})
		timers = append(timers, bookmarks)
		if limit > lastBookmark {
			timers = append(timers, time.AfterFunc(limit-lastBookmark, bookmark))
		}
	}
	go func() {
		<-w.body.ended
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		delete(w.server.watches, w)
		for _, t := range timers {
			t.Stop()
		}
	}()
}

// checkInitial refuses what the server refuses of sendInitialEvents.
func checkInitial(query url.Values) status {
	match, initial := query.Get("resourceVersionMatch"), query.Get("sendInitialEvents")
	problem := ""
	switch {
	case initial == "" && match != "":
		problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
	case initial != "" && match != string(metav1.ResourceVersionMatchNotOlderThan):
		problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	default:
		return nil
	}
	return invalidOptions("resourceVersionMatch", problem)
}

func invalidOptions(option, problem string) status {
	return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "",
		field.ErrorList{field.Forbidden(field.NewPath(option), problem)})
}

// parseVersion reads the resourceVersion of a list or watch, which is zero if it is missing or any will do.
func parseVersion(query url.Values) (int64, error) {
	if query.Get("resourceVersion") == "" {
		return 0, nil
	}
	return strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
}

// tell sends what a change means to this watch, because an object may enter or leave its selection.
func (w *watch) tell(c *change) {
	if c.version <= w.after {
		return
	}
	before, after := w.matches(c.key, c.before), w.matches(c.key, c.after)
	switch {
	case after && !before:
		w.send(apiwatch.Added, c.after)
	case after:
		w.send(apiwatch.Modified, c.after)
	case before: // its last state that was selected, at the version of the change
		w.send(apiwatch.Deleted, c.last())
	}
}

func (w *watch) send(kind apiwatch.EventType, o *Object) {
	if e := &w.server.latest; e.form != w.form || e.kind != kind || e.object != o {
		*e = event{w.form, kind, o, w.event(kind, o)}
	}
	w.body.send(w.server.latest.raw)
}

// event is what a watch sent last, kept because most changes are sent to several watches.
type event struct {
	form
	kind   apiwatch.EventType
	object *Object
	raw    []byte
}

func (w *watch) bookmark(annotations map[string]string) {
	o := treeObject(map[string]any{})
	o.kind = w.gvk()
	o.SetResourceVersion(strconv.FormatInt(w.server.data.version, 10))
	o.SetAnnotations(annotations)
	w.send(apiwatch.Bookmark, o)
}
