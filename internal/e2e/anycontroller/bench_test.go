package anycontroller_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// What replicas are for: a controller whose client sends five requests per second, however many objects there
// are. Measured while each replica has work: between a sixth, when bursts are over, and a half of its objects.
func BenchmarkReplicas(b *testing.B) {
	alone := 0.0
	for _, replicas := range []int{1, 2, 4} {
		b.Run(strconv.Itoa(replicas), func(b *testing.B) {
			for b.Loop() {
				rate := throughput(b, replicas)
				if replicas == 1 {
					alone = rate
				}
				b.ReportMetric(rate, "objects/s")
				b.ReportMetric(rate/alone, "x")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func throughput(b *testing.B, replicas int) float64 {
	b.Helper()
	const each = 80
	s := newSample(b)
	defer s.end()
	start := filepath.Join(b.TempDir(), "start") // of the programs, when each has its share
	s.program.command = slices.Concat([]string{
		"/bin/sh", "-c", `while [ ! -e "$0" ]; do sleep 0.1; done; exec "$@"`, start,
	}, s.program.command)
	s.create(0, each*replicas)
	var names []string
	for i := range replicas {
		names = append(names, "s"+strconv.Itoa(i))
		s.start(names[i])
	}
	s.among(names...)
	s.until("programs run", func() string {
		for _, name := range names {
			if len(s.programs(name)) == 0 {
				return name + " does not"
			}
		}
		return ""
	})
	require.NoError(b, os.WriteFile(start, nil, 0o600))
	var times []time.Duration // by how many are done
	for began := time.Now(); len(times) < each*replicas/2; time.Sleep(poll) {
		done, _ := s.done()
		for len(times) < done {
			times = append(times, time.Since(began))
		}
		require.Less(b, time.Since(began), patience, "%d are reconciled", len(times))
	}
	from, to := each*replicas/6, each*replicas/2
	b.Logf("%d replicas: a sixth of the objects after %v, half after %v", replicas, times[from-1].Round(poll),
		times[to-1].Round(poll))
	return float64(to-from) / (times[to-1] - times[from-1]).Seconds()
}

// latencies of requests beside each other, by the way that they take: "direct", "proxied", and "relayed" by the
// least that a proxy can be.
type latencies map[string][]time.Duration

func (l latencies) note(way string, took time.Duration) { l[way] = append(l[way], took) }

// report reports the medians and the slowest hundredths, and how much each way adds to that without a proxy.
func (l latencies) report(b *testing.B, what string) {
	b.Helper()
	for _, p := range []int{50, 99} {
		at := func(way string) float64 {
			return slices.Sorted(slices.Values(l[way]))[len(l[way])*p/100].Seconds() * 1000
		}
		b.ReportMetric(at("direct"), fmt.Sprintf("%s-p%d-direct-ms", what, p))
		b.ReportMetric(at("relayed")-at("direct"), fmt.Sprintf("%s-p%d-relayed-ms", what, p))
		b.ReportMetric(at("proxied")-at("direct"), fmt.Sprintf("%s-p%d-added-ms", what, p))
	}
}

// What the proxy adds to a get, an update and an event, beside what the standard library's adds in the same run.
func BenchmarkProxy(b *testing.B) {
	for name, flags := range map[string][]string{"hidden": nil, "shown": {"--show-marks"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				benchmarkProxy(b, flags)
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func benchmarkProxy(b *testing.B, flags []string) {
	b.Helper()
	const samples = 500
	s := newStub(b, flags...)
	defer s.end()
	user := s.cp.User(s.namespace+"-a", replicasGroup)
	ways := map[string]wire{
		"proxied": newWire(b, s.access("a")), "direct": newWire(b, user), "relayed": newWire(b, s.relay(user)),
	}
	s.create(2, "a")
	path := "/api/v1/namespaces/" + s.namespace + "/secrets/root-0"

	gets, updates := latencies{}, latencies{}
	get := func(w wire) ([]byte, time.Duration) {
		began := time.Now()
		a := w.send("GET", path, "", nil)
		took := time.Since(began)
		require.Equal(b, http.StatusOK, a.code, "%s", a.body)
		return a.body, took
	}
	update := func(w wire) time.Duration {
		body, _ := get(w)
		var o unstructured.Unstructured
		require.NoError(b, json.Unmarshal(body, &o.Object))
		o.SetAnnotations(merged(o.GetAnnotations(), "at", time.Now().String()))
		body, err := json.Marshal(o.Object)
		require.NoError(b, err)
		began := time.Now()
		a := w.send("PUT", path, "application/json", bytes.NewReader(body))
		took := time.Since(began)
		require.Equal(b, http.StatusOK, a.code, "%s", a.body)
		return took
	}
	for range samples {
		for way, w := range ways {
			_, took := get(w)
			gets.note(way, took)
			updates.note(way, update(w))
		}
	}
	gets.report(b, "get")
	updates.report(b, "update")
	s.events(b, ways, samples)
}

// relay starts a relay to the API server, and returns how it is reached.
func (s stub) relay(user *rest.Config) *rest.Config {
	s.t.Helper()
	path, err := shared.Program(s.t.Context(), "./relay")
	require.NoError(s.t, err)
	kubeconfig, err := s.cp.Kubeconfig(user)
	require.NoError(s.t, err)
	printed := make(chan []string, 1)
	p, err := s.cp.Run(e2e.Command{
		Name: "relay-" + s.namespace, Path: path, Args: []string{kubeconfig}, OnLine: func(line string) {
			var access []string
			assert.NoError(s.t, json.Unmarshal([]byte(line), &access))
			printed <- access
		},
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = p.Kill() })
	access := <-printed
	return &rest.Config{Host: access[0], TLSClientConfig: rest.TLSClientConfig{CAData: []byte(access[1])}, QPS: -1}
}

func merged(have map[string]string, key, value string) map[string]string {
	if have == nil {
		have = map[string]string{}
	}
	have[key] = value
	return have
}

// events measures how much later events come through the proxy.
func (s stub) events(b *testing.B, ways map[string]wire, samples int) {
	b.Helper()
	list, err := s.client.Resource(secrets).Namespace(s.namespace).List(b.Context(), metav1.ListOptions{})
	require.NoError(b, err)
	path := "/api/v1/namespaces/" + s.namespace + "/secrets?watch=1&resourceVersion=" + list.GetResourceVersion()
	arrived := func(w wire) <-chan time.Time {
		response, err := w.stream(b.Context(), path)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, response.StatusCode)
		times := make(chan time.Time, samples)
		go func() {
			defer response.Body.Close()
			for lines := bufio.NewScanner(response.Body); len(times) < samples && lines.Scan(); {
				times <- time.Now()
			}
			close(times)
		}()
		return times
	}
	arrivals := map[string]<-chan time.Time{}
	for way, w := range ways {
		arrivals[way] = arrived(w)
	}
	l := latencies{}
	for i := range samples {
		began := time.Now()
		_, err := s.client.Resource(secrets).Namespace(s.namespace).Patch(b.Context(), "root-0", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"event":"%d"}}}`, i), metav1.PatchOptions{})
		require.NoError(b, err)
		for way, arrived := range arrivals {
			l.note(way, (<-arrived).Sub(began))
		}
	}
	l.report(b, "event")
}

// Ten thousand watches of one program.
func BenchmarkWatches(b *testing.B) {
	for b.Loop() {
		s := newStub(b)
		s.lease = time.Minute // the machine also runs the API server, and the readers
		w := newWire(b, s.access("a"))
		s.create(5, "a")
		took := s.watches(b, w, "/api/v1/namespaces/"+s.namespace+"/secrets", 10_000)
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(float64(s.replicas["a"].peak()), "MiB")
		b.ReportMetric(0, "ns/op")
		s.end()
	}
}

// What a proxy with 10,000 objects costs while 100 of them change in a second, through it, and the program watches
// all.
func BenchmarkLoad(b *testing.B) {
	const (
		objects = 10_000
		rate    = 100
		length  = 20 * time.Second
	)
	for b.Loop() {
		s := newStub(b)
		w := newWire(b, s.access("a"))
		s.fill(objects)
		r := s.replicas["a"]
		before := r.peak()
		list := w.send("GET", "/api/v1/namespaces/"+s.namespace+"/secrets", "", nil)
		require.Equal(b, http.StatusOK, list.code)
		b.ReportMetric(float64(len(list.body)>>20), "MiB-of-a-list")
		b.ReportMetric(float64(r.peak()-before), "MiB-for-a-list")
		response, err := w.stream(b.Context(), "/api/v1/namespaces/"+s.namespace+"/secrets?watch=1")
		require.NoError(b, err)
		go func() {
			for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			}
		}()
		busy := s.costs(r, length, rate, w)
		idle := s.costs(r, length/2, 0, w)
		b.ReportMetric(busy*100, "%-of-a-CPU")
		b.ReportMetric(idle*100, "%-of-a-CPU-idle")
		b.ReportMetric(float64(r.memory("VmRSS")), "MiB")
		b.ReportMetric(0, "ns/op")
		response.Body.Close()
		s.end()
	}
}

// fill creates so many roots, and waits until the only shard has all.
func (s stub) fill(n int) {
	s.t.Helper()
	roots, numbers := s.client.Resource(secrets).Namespace(s.namespace), make(chan int)
	var creating sync.WaitGroup
	for range 8 {
		creating.Go(func() {
			for i := range numbers {
				o := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "root-" + strconv.Itoa(i)},
					"stringData": map[string]any{"x": strings.Repeat("x", 1000)},
				}}
				_, err := roots.Create(s.t.Context(), o, metav1.CreateOptions{})
				if err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	creating.Wait()
	of := regexp.MustCompile(`bellwether_proxy_objects{resource="secrets"} (\d+)`)
	s.until("all are with the shard", func() string { // by its metrics: lists of so many would be the load
		found := of.FindStringSubmatch(s.replicas["a"].metrics())
		if have, _ := strconv.Atoi(slices.Concat(found, []string{"", ""})[1]); have < n {
			return fmt.Sprint(found)
		}
		return ""
	})
}

// costs changes so many objects per second through the proxy, and returns which part of a processor
// bellwether takes meanwhile.
func (s stub) costs(r *replica, length time.Duration, rate int, w wire) float64 {
	s.t.Helper()
	before, began := r.processor(), time.Now()
	var changing sync.WaitGroup
	for i := range int(length.Seconds()) * rate {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		changing.Go(func() {
			path := fmt.Sprintf("/api/v1/namespaces/%s/secrets/root-%d", s.namespace, i)
			w.send("PATCH", path, string(types.MergePatchType),
				strings.NewReader(`{"metadata":{"annotations":{"changed":"yes"}}}`))
		})
	}
	changing.Wait()
	time.Sleep(time.Until(began.Add(length)))
	return (r.processor() - before).Seconds() / time.Since(began).Seconds()
}

// processor is the time that bellwether has had of processors.
func (r *replica) processor() time.Duration {
	r.cluster.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.pid()))
	require.NoError(r.cluster.t, err)
	words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(words[11])
	require.NoError(r.cluster.t, err)
	system, err := strconv.Atoi(words[12])
	require.NoError(r.cluster.t, err)
	return time.Duration(user+system) * time.Second / 100 // ticks of 10 ms
}
