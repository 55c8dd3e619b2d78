package apisim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func (s *Server) get(t target) (*Object, status) {
	if o := s.data.objects[t.key()]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(t.group(), t.name)
}

// page is the content of a continue token: the version of the whole list and the last object that
// was listed. With version latest the rest of the list is of the latest version.
type page struct {
	Version   int64
	Namespace string
	Name      string
}

const latest = -1

func (p page) token() string {
	raw, _ := json.Marshal(p) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (s *Server) list(t target, query url.Values) (list, status) {
	selected, err := selectionOf(t, query)
	if err != nil {
		return list{}, err
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, err := s.from(query)
	if err != nil {
		return list{}, err
	}
	if query.Get("resourceVersion") == "0" { // as from a cache, which has no pages
		limit = 0
	}
	objects, ok := s.data.at(from.Version)
	if !ok {
		expired := apierrors.NewResourceExpired(fmt.Sprintf("the state at resourceVersion %d is forgotten",
			from.Version))
		if query.Get("continue") != "" {
			expired.ErrStatus.Continue = page{latest, from.Namespace, from.Name}.token()
		}
		return list{}, expired
	}
	answer := list{target: t}
	answer.meta.ResourceVersion = strconv.FormatInt(from.Version, 10)
	all := selected
	all.labels = labels.Everything()
	keys := sorted(objects, all)
	last := key{namespace: from.Namespace, name: from.Name}
	if query.Get("continue") != "" {
		keys = slices.DeleteFunc(keys, func(k key) bool { return !last.less(k) })
	}
	for i, k := range keys {
		if limit > 0 && len(answer.items) == limit { // whether what comes is selected, the server does not look
			answer.meta.Continue = page{from.Version, last.namespace, last.name}.token()
			if selected.labels.Empty() && selected.fields.Empty() {
				remaining := int64(len(keys) - i)
				answer.meta.RemainingItemCount = &remaining
			}
			break
		}
		if last = k; selected.matches(k, objects[k]) {
			answer.items = append(answer.items, objects[k])
		}
	}
	return answer, nil
}

// from returns where a list begins: its version, and with a continue token the last object of the
// previous page.
func (s *Server) from(query url.Values) (page, status) {
	now := page{Version: s.data.version}
	version, err := parseVersion(query)
	match := metav1.ResourceVersionMatch(query.Get("resourceVersionMatch"))
	token := query.Get("continue")
	switch {
	case err != nil:
		return now, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: %v", err))
	case query.Get("resourceVersion") == "" && match != "":
		return now, invalidOptions("resourceVersionMatch",
			"resourceVersionMatch is forbidden unless resourceVersion is provided")
	case token != "" && version != 0:
		return now, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	case token != "":
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || json.Unmarshal(raw, &now) != nil {
			return now, apierrors.NewBadRequest("continue key is not valid: " + token)
		}
		if now.Version == latest {
			now.Version = s.data.version
		}
	case version > now.Version:
		timeout := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version,
			now.Version), 1)
		timeout.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type:    metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version",
		}}
		return now, timeout
	case match == metav1.ResourceVersionMatchExact:
		now.Version = version
	}
	return now, nil
}

// list is an answer that still has to be shaped for the client.
type list struct {
	target
	meta  metav1.ListMeta
	items []*Object
}

func selectionOf(t target, query url.Values) (selection, status) {
	s := selection{resource: t.group(), namespace: t.namespace}
	var err error
	if s.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("labelSelector: %v", err))
	}
	if s.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
	}
	for _, r := range s.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" && !slices.Contains(t.Fields, r.Field) {
			return s, apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only \"metadata.name\", "+
				"\"metadata.namespace\"", r.Field))
		}
	}
	return s, nil
}

// sorted returns the keys of the objects selected, in the order of a list.
func sorted(objects map[key]*Object, selected selection) []key {
	var keys []key
	for k, o := range objects {
		if selected.matches(k, o) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		switch {
		case a.less(b):
			return -1
		case b.less(a):
			return 1
		}
		return 0
	})
	return keys
}
