package fresh

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// pageSize is how many objects Wait requests at once when it lists all.
const pageSize = 500

var errOddPage = errors.New("fresh: a page has another version than its list has to have")

// contents is a consistent list of all objects, which a cache has to show if no bookmark proves
// that it has missed nothing.
type contents struct {
	version string            // of the list
	objects map[string]string // versions by key
}

// list returns the contents at floor or later.
func (c Cache) list(ctx context.Context, floor string) (contents, error) {
	source := c.source()
	all := contents{objects: map[string]string{}}
	for next := ""; ; {
		page, err := listPage(ctx, source, metav1.ListOptions{Limit: pageSize, Continue: next})
		if err != nil {
			return contents{}, err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return contents{}, err
		}
		version := list.GetResourceVersion()
		if next == "" {
			all.version = version
		}
		// Something between may answer with an old list, or with an empty one in place of the last page.
		if reached, err := reaches(version, floor); err != nil || !reached || version != all.version {
			return contents{}, fmt.Errorf("%w: %q, not %q, and at least %q", errOddPage, version, all.version, floor)
		}
		if err := meta.EachListItem(page, all.add); err != nil {
			return contents{}, err
		}
		if next = list.GetContinue(); next == "" {
			return all, nil
		}
	}
}

func (l contents) add(o runtime.Object) error {
	key, version, err := identify(o)
	l.objects[key] = version
	return err
}

// shownBy reports whether a store with these items shows the list, or for some objects a later state.
// What is not in the list was either deleted before it, or created since then.
func (l contents) shownBy(items []any) bool {
	missing := len(l.objects)
	for _, item := range items {
		key, version, err := identify(item)
		if err != nil {
			return false
		}
		least, listed := l.objects[key]
		if listed {
			missing--
		} else {
			least = l.version
		}
		if reached, err := reaches(version, least); err != nil || !reached {
			return false
		}
	}
	return missing == 0
}

// identify returns the key of an object in a store, and its version.
func identify(o any) (key, version string, err error) {
	if key, err = cache.MetaNamespaceKeyFunc(o); err == nil {
		version, err = versionOf(o)
	}
	return key, version, err
}
