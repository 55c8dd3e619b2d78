package anycontroller_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// What a program should not send is answered clearly, changes nothing, and costs no more memory than
// bodies may have.
func TestBadInput(t *testing.T) {
	s := newStub(t)
	config := s.access("a")
	s.access("b")
	of := s.create(20, "a", "b")
	w := newWire(t, config)
	objects := "/api/v1/namespaces/" + s.namespace + "/secrets"
	mine, others := objects+"/"+of["a"], objects+"/"+of["b"]
	children := "/api/v1/namespaces/" + s.namespace + "/configmaps"

	t.Run("without the token", func(t *testing.T) {
		for name, token := range map[string]string{"none": "", "another": "x" + config.BearerToken} {
			stranger := rest.CopyConfig(config)
			stranger.BearerToken = token
			newWire(t, stranger).send("GET", "/version", "", nil).clear(t, name, http.StatusUnauthorized)
			newWire(t, stranger).send("PUT", mine, "application/json", strings.NewReader("{}")).
				clear(t, name, http.StatusUnauthorized)
		}
	})

	t.Run("bodies that do not decode", func(t *testing.T) {
		before := s.version(secrets, of["a"])
		for _, c := range []struct{ method, contentType, body string }{
			{"PUT", "application/json", "{"},
			{"PUT", "application/json", "[]"},
			{"PUT", "application/json", `{"metadata":[]}`},
			{"PUT", "application/json", `{"metadata":{"labels":7}}`},
			{"PUT", "application/json", `{"metadata":{"labels":{"a":7}}}`},
			{"PUT", "application/yaml", "a: [\x00"},
			{"PUT", "application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff\xff\xff"},
			{"PUT", "application/vnd.kubernetes.protobuf", "something else"},
			{"PUT", "application/cbor", "\xd9\xd9\xf7\xbf"},
			{"PATCH", "application/merge-patch+json", "{"},
			{"PATCH", "application/merge-patch+json", "[]"},
			{"PATCH", "application/merge-patch+json", `{"metadata":"x"}`},
			{"PATCH", "application/merge-patch+json", `{"metadata":{"labels":"x"}}`},
			{"PATCH", "application/strategic-merge-patch+json", `{"metadata":{"labels":{"$patch":"replace"}}}`},
			{"PATCH", "application/json-patch+json", "{}"},
			{"PATCH", "application/json-patch+json", `[{"op":"remove","path":"/metadata"}]`},
			{"PATCH", "application/apply-patch+yaml", "{"},
		} {
			what := fmt.Sprintf("%s %s %q", c.method, c.contentType, c.body)
			w.send(c.method, mine+"?fieldManager=x", c.contentType, strings.NewReader(c.body)).
				clear(t, what, http.StatusBadRequest)
		}
		for _, c := range []struct{ contentType, body string }{
			{"application/json", "{"},
			{"application/json", `{"metadata":{"ownerReferences":{}}}`},
			{"application/vnd.kubernetes.protobuf", "k8s\x00\x0a\xff"},
			{"application/cbor", "\xff"},
		} {
			w.send("POST", children, c.contentType, strings.NewReader(c.body)).
				clear(t, "POST "+c.contentType, http.StatusBadRequest)
		}
		for _, method := range []string{"PUT", "PATCH"} { // of no type that there is
			a := w.send(method, mine, "text/html", strings.NewReader("<p>"))
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusUnsupportedMediaType}, a.code, "%s: %s", method,
				a.body)
		}
		assert.Equal(t, before, s.version(secrets, of["a"]))
	})

	t.Run("large bodies", func(t *testing.T) {
		before := s.version(secrets, of["a"])
		large := s.child(of["a"], "large", strings.Repeat("x", 10<<20))
		var sending sync.WaitGroup
		for i := range 16 {
			sending.Go(func() {
				length := io.Reader(bytes.NewReader(large))
				if i%2 == 0 {
					length = io.MultiReader(length) // in chunks, of unknown length
				}
				switch i % 4 {
				case 0, 1:
					w.send("PUT", mine, "application/json", length).clear(t, "PUT", http.StatusRequestEntityTooLarge)
				default:
					w.send("POST", children, "application/json", length).
						clear(t, "POST", http.StatusRequestEntityTooLarge)
				}
			})
		}
		sending.Wait()
		// Outside the ring, it is the API server that refuses.
		outside := "/api/v1/namespaces/" + s.namespace + "/serviceaccounts"
		w.send("POST", outside, "application/json", bytes.NewReader(large)).
			clear(t, "outside", http.StatusRequestEntityTooLarge)
		assert.Equal(t, before, s.version(secrets, of["a"]))
		peak := s.replicas["a"].peak()
		t.Logf("at most %d MiB", peak)
		assert.Less(t, peak, 400, "MiB: 16 bodies of 3 MiB, which grow while they are read, and the rest")
	})

	t.Run("unknown verbs", func(t *testing.T) {
		before := s.version(secrets, of["a"])
		for _, c := range []struct{ method, path string }{
			{"PURGE", mine},
			{"PROPFIND", objects},
			{"TRACE", mine},
			{"LINK", "/api/v1/nodes/n"},
			{"PUT", objects + "/../x"},
			{"DELETE", "/api/v1//namespaces/" + s.namespace + "/secrets/" + of["b"]},
		} {
			w.send(c.method, c.path, "application/json", strings.NewReader("{}")).
				clear(t, c.method+" "+c.path, http.StatusMethodNotAllowed)
		}
		assert.Equal(t, before, s.version(secrets, of["a"]))
	})

	t.Run("a program that ignores conflicts", func(t *testing.T) {
		before := s.version(secrets, of["b"])
		for range 100 {
			a := w.send("PATCH", others, string(types.MergePatchType), strings.NewReader(`{"data":{"x":"eA=="}}`))
			a.clear(t, "PATCH", http.StatusConflict)
			assert.Contains(t, a.status.Message, "it is with b")
			w.send("DELETE", others, "", nil).clear(t, "DELETE", http.StatusConflict)
			w.send("POST", children, "application/json", bytes.NewReader(s.child(of["b"], "stolen", "x"))).
				clear(t, "POST", http.StatusConflict)
		}
		assert.Equal(t, before, s.version(secrets, of["b"]))
		metrics := s.replicas["a"].metrics()
		for _, verb := range []string{"patch", "delete"} {
			assert.Contains(t, metrics,
				`bellwether_proxy_requests_total{resource="secrets",verb="`+verb+`",outcome="refused"} 100`)
		}
	})

	t.Run("many watches", func(t *testing.T) { s.watches(t, w, objects, 1000) })

	// Nothing is lost: what is right still works.
	a := w.send("PATCH", mine, string(types.MergePatchType), strings.NewReader(`{"data":{"x":"eA=="}}`))
	assert.Equal(t, http.StatusOK, a.code, "%s", a.body)
	a = w.send("POST", children, "application/json", bytes.NewReader(s.child(of["a"], "own", "x")))
	assert.Equal(t, http.StatusCreated, a.code, "%s", a.body)
	a = w.send("POST", children, "application/json", bytes.NewReader(s.child(of["a"], "own", "x")))
	a.clear(t, "again", http.StatusConflict)
	s.judged()
}

// watches opens so many watches, and shows that each has a change of every object of the shard, and of no
// other. It returns how long the changes took to reach all.
func (s stub) watches(t testing.TB, w wire, objects string, n int) time.Duration {
	t.Helper()
	r := s.replicas["a"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list, err := s.client.Resource(secrets).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	own := map[string]bool{}
	for _, o := range list.Items {
		if o.GetLabels()[api.ShardLabel(s.ring)] == "a" {
			own[o.GetName()] = true
		}
	}
	before := r.memory("VmRSS")
	var open, reached sync.WaitGroup
	var opened, complete, foreign atomic.Int64
	limit := make(chan struct{}, 50) // that open at a time
	for range n {
		limit <- struct{}{}
		open.Add(1)
		reached.Go(func() {
			response, err := w.stream(ctx, objects+"?watch=1&resourceVersion="+list.GetResourceVersion())
			<-limit
			if err == nil && response.StatusCode == http.StatusOK {
				opened.Add(1)
			}
			open.Done()
			if err != nil {
				return
			}
			defer response.Body.Close()
			seen := map[string]bool{}
			for lines := bufio.NewScanner(response.Body); len(seen) < len(own) && lines.Scan(); {
				var event struct{ Object metav1.PartialObjectMetadata }
				if json.Unmarshal(lines.Bytes(), &event) != nil || !own[event.Object.Name] {
					foreign.Add(1)
				}
				seen[event.Object.Name] = true
			}
			if len(seen) == len(own) {
				complete.Add(1)
			}
		})
	}
	open.Wait()
	with := r.memory("VmRSS")
	require.EqualValues(t, n, opened.Load(), "watches that were opened")
	began := time.Now()
	for _, o := range list.Items {
		_, err := s.client.Resource(secrets).Namespace(s.namespace).Patch(ctx, o.GetName(), types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"watches":"%d"}}}`, n), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	ended := make(chan struct{})
	go func() { reached.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(patience):
		cancel()
		<-ended
	}
	took := time.Since(began)
	assert.EqualValues(t, n, complete.Load(), "watches that have all changes")
	assert.Zero(t, foreign.Load(), "events of other objects")
	t.Logf("%d watches of %d objects: changes of all reach all within %v; %d MiB before, %d with them, %d at most", n,
		len(own), took.Round(time.Millisecond), before, with, r.peak())
	return took
}
