package endpoints_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// The simulations prove four claims. An instance removes another's entry only if it has seen for
// ExpireAfter, without a gap, that the entry was not refreshed. Only a withdrawal empties the
// Service. An instance is published soon when nothing disturbs it, whatever came before. And when
// all faults are over, all entries are right.
//
// Two to four instances are killed, stopped, suspended, cut off and terminated. Their clocks are
// hours off. Users delete and edit their entries, and proxies answer in the API server's place.

func TestSimulatedConfigMapStore(t *testing.T) { prove(t, endpoints.ConfigMapStore{}) }

func TestSimulatedLeaseStore(t *testing.T) { prove(t, endpoints.LeaseStore{}) }

func prove(t *testing.T, store endpoints.Store) {
	t.Helper()
	seen := &tally{n: map[string]int{}}
	sim.Prove(t, instances(store, seen), sim.Schedules(t, 30))
	seen.requireAll(t, "expired", "withdrawn", "emptied")
}

// TestSimulatedInterference has instances that do not fail. All of them must be published all the
// time, except while a user's change is being repaired.
func TestSimulatedInterference(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			seen := &tally{n: map[string]int{}}
			s := instances(store, seen)
			s.MinReplicas = 1
			s.Kinds = []sim.Kind{sim.ClockStep, sim.Interference}
			sim.Prove(t, s, sim.Schedules(t, 15))
			seen.requireAll(t, "odd answers", "annotated")
		})
	}
}

// TestSimulatedSettings has instances that do not fail: whatever becomes of the run-time setting,
// no instance ever removes another.
func TestSimulatedSettings(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			seen := &tally{n: map[string]int{}}
			s := instances(store, seen)
			s.Kinds = []sim.Kind{sim.ClockStep, sim.Interference}
			s.Interfere = resetExpiry
			s.Duration, s.Quiet = 4*time.Minute, time.Minute
			sim.Prove(t, s, sim.Schedules(t, 10))
			assert.Zero(t, seen.n["expired"])
			seen.requireAll(t, "set")
		})
	}
}

// tally is how often things have happened, in all schedules.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

// requireAll fails if something has never happened. With the race detector, there are too few
// schedules to be sure that it does.
func (c *tally) requireAll(t *testing.T, kinds ...string) {
	t.Helper()
	t.Log(c.n)
	for _, kind := range kinds {
		assert.True(t, c.n[kind] > 0 || c.n["registered"] < 300, "never %s", kind)
	}
}

const rateError = 0.1

func instances(store endpoints.Store, seen *tally) sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 4, RateError: rateError, Unaware: 1200 * time.Millisecond,
		Duration: 6 * time.Minute, Quiet: 4 * time.Minute,
		Main:      func(ctx context.Context, p *sim.Process) { runInstance(ctx, p, store) },
		Interfere: vandalize,
		Check:     check,
		Rule: func(w *sim.World) sim.Rule {
			b := &book{
				seen: seen, entries: map[string]entered{}, removed: map[string]entered{},
				published: map[string][]string{}, last: map[string]time.Time{},
				writes: map[string][]time.Time{}, state: &w.State,
			}
			w.State.Store("book", b)
			w.State.Store("store", store)
			w.Server.Observe(b.note)
			admin := adminOf(w)
			_, err := admin.CoreV1().Services("ns").
				Create(context.Background(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
					metav1.CreateOptions{})
			if err == nil {
				_, err = admin.CoreV1().ConfigMaps("ns").Create(context.Background(),
					&corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Name: "settings"},
						Data:       map[string]string{"expire-duration": "1m"},
					}, metav1.CreateOptions{})
			}
			if err != nil {
				panic(err)
			}
			return b.rule
		},
	}
}

func adminOf(w *sim.World) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(w.Server.Client("somebody").Config())
}

// addressOf a process: every incarnation of a replica has the same.
func addressOf(p *sim.Process) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, p.Name[0]}) }

func runInstance(ctx context.Context, p *sim.Process, store endpoints.Store) {
	connection, g := p.Config(), &gateway{}
	g.set(func(r *http.Request) *oddAnswer { return oddityOf(p).answer(r) })
	connection.Wrap(g.wrap)
	config := endpoints.Config{
		Namespace: "ns", Service: "web", Addresses: []netip.Addr{addressOf(p)}, Ports: []endpoints.Port{https},
		Store: store, Settings: "settings",
		Hooks: endpoints.Hooks{OnRound: func(endpoints.Round) { p.Act("") }},
	}
	config.SetClock(p.Clock)
	r, err := endpoints.New(kubernetes.NewForConfigOrDie(connection), config)
	if err != nil {
		panic(err)
	}
	p.Begin(p.Name)
	defer p.End(p.Name)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		p.World().State.Store("ending "+p.Name, true)
		end()
	})()
	ended := make(chan struct{})
	defer close(ended)
	go beAlive(p, ended)
	_ = r.Run(running)
}

// soon is the bound within which an instance is published when all is well for it: two Intervals
// and 4 s, by its clock. The rest is for the looks.
const soon = (2*interval+4*time.Second)*10/9 + 4*look // rateError is a tenth

// look is how often that is looked at: more often than the shortest fault lasts.
const look = 250 * time.Millisecond

// beAlive fails when all has been well for a process for longer than it may take, and it has not
// been published meanwhile.
func beAlive(p *sim.Process, ended <-chan struct{}) {
	value, _ := p.World().State.Load("book")
	b := value.(*book)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for since := time.Now(); p.Alive(); {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		_, ending := p.World().State.Load("ending " + p.Name)
		if ending || !p.World().Calm() || oddityOf(p).lasts() {
			since = time.Now()
			continue
		}
		if last := b.lastPublished(addressOf(p).String()); last.After(since) {
			since = last
		}
		if long := time.Since(since); long > soon {
			p.Fail("has not been published for %v, though all is well", long)
			return
		}
	}
}

// oddity is what proxies answer for some time.
type oddity struct {
	odd     oddAnswer
	request string // the only one, or empty: all
	until   time.Time
}

func oddityOf(p *sim.Process) oddity {
	value, _ := p.World().State.Load("oddity")
	o, _ := value.(oddity)
	return o
}

func (o oddity) lasts() bool { return time.Now().Before(o.until) }

func (o oddity) answer(r *http.Request) *oddAnswer {
	if !o.lasts() || o.request != "" && !asks(r, o.request) {
		return nil
	}
	return &o.odd
}

// book is what the server sees, and the rule about it.
type book struct {
	seen  *tally
	state *sync.Map

	mu        sync.Mutex
	entries   map[string]entered   // by key
	removed   map[string]entered   // the last of a key
	published map[string][]string  // addresses, by slice
	last      map[string]time.Time // that an address was published until
	writes    map[string][]time.Time
	wrong     string
}

// entered is an entry in the store.
type entered struct {
	text string
	at   time.Time // of its last change
}

func (b *book) rule(_, other *sim.Process) (violation, excuse string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other == nil {
		return b.wrong, ""
	}
	return "", "another instance"
}

// lastPublished is now for an address that is published.
func (b *book) lastPublished(address string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, addresses := range b.published {
		if slices.Contains(addresses, address) {
			return time.Now()
		}
	}
	return b.last[address]
}

func (b *book) fail(format string, args ...any) {
	if b.wrong == "" {
		b.wrong = fmt.Sprintf(format, args...)
	}
}

// note takes in a change.
func (b *book) note(c apisim.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := c.After
	if o == nil {
		o = c.Before
	}
	switch {
	case o.GetKind() == "EndpointSlice":
		b.notePublished(c, o.GetName())
	case o.GetKind() == "Lease":
		b.noteEntry(c.Client, o.GetName(), leaseText(c.After))
	case o.GetName() == "settings":
		b.seen.add("set")
	case o.GetKind() == "ConfigMap":
		before, after := dataOf(c.Before), dataOf(c.After)
		for key := range before {
			if _, exists := after[key]; !exists {
				b.noteEntry(c.Client, key, "")
			}
		}
		for key, text := range after {
			if before[key] != text {
				b.noteEntry(c.Client, key, text)
			}
		}
	}
}

func leaseText(o *apisim.Object) string {
	if o == nil {
		return ""
	}
	renewed, _, _ := unstructured.NestedString(o.Content(), "spec", "renewTime")
	return renewed
}

func dataOf(o *apisim.Object) map[string]string {
	if o == nil {
		return nil
	}
	data, _, _ := unstructured.NestedStringMap(o.Content(), "data")
	return data
}

// noteEntry takes in a change of an entry, whose text is empty if it was removed.
func (b *book) noteEntry(client, key, text string) {
	now := time.Now()
	own := strings.Contains(key, fmt.Sprintf("ip-10-0-0-%d-", client[0]))
	before, existed := b.entries[key]
	if existed && before.text == text {
		return // somebody has annotated a Lease
	}
	if text == "" {
		b.removed[key] = before
	}
	switch {
	case text != "" && b.removed[key].text == text: // somebody has put it back as it was, which is no heartbeat
		b.entries[key] = b.removed[key]
	case text != "":
		b.entries[key] = entered{text, now}
		if client == "somebody" {
			break
		}
		if !existed {
			b.seen.add("registered")
		}
		b.writes[client] = append(b.writes[client], now)
		if !own {
			b.fail("%s wrote the entry %s", client, key)
		}
	case own:
		b.seen.add("withdrawn")
		delete(b.entries, key)
		if _, ending := b.state.Load("ending " + client); !ending {
			b.fail("%s removed its own entry", client)
		}
	default:
		delete(b.entries, key)
		if client == "somebody" {
			return
		}
		b.seen.add("expired")
		least := time.Duration(expiry.Seconds() / (1 + rateError) * float64(time.Second))
		if age := now.Sub(before.at); age < least {
			b.fail("%s removed %s, which was refreshed %v ago", client, key, age)
		}
		writes := 0
		for _, at := range b.writes[client] {
			if now.Sub(at) < least {
				writes++
			}
		}
		if writes < 2 {
			b.fail("%s removed %s, and had not itself been able to write", client, key)
		}
		if malformed(key) {
			b.fail("%s removed the malformed entry %s", client, key)
		}
	}
}

func malformed(key string) bool { return strings.HasSuffix(key, "note") }

// notePublished takes in a change of a slice.
func (b *book) notePublished(c apisim.Change, name string) {
	var addresses []string
	if c.After != nil {
		all, _, _ := unstructured.NestedSlice(c.After.Content(), "endpoints")
		for _, e := range all {
			a, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
			addresses = append(addresses, a...)
		}
	}
	for _, address := range b.published[name] {
		b.last[address] = time.Now()
	}
	b.published[name] = addresses
	if c.Client == "somebody" || b.any() {
		return
	}
	b.seen.add("emptied")
	if _, ending := b.state.Load("ending " + c.Client); !ending {
		b.fail("%s has emptied the Service, and does not withdraw", c.Client)
	}
}

func (b *book) any() bool {
	for _, addresses := range b.published {
		if len(addresses) > 0 {
			return true
		}
	}
	return false
}

// check says what is wrong when all is well again: every instance has to be registered and
// published, and nothing else.
func check(w *sim.World) error {
	value, _ := w.State.Load("book")
	b := value.(*book)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrong != "" {
		return errors.New(b.wrong)
	}
	var want, keys, published []string
	for n := range w.Replicas() {
		want = append(want, fmt.Sprintf("10.0.0.%d", 'a'+n))
	}
	for key := range b.entries {
		if !malformed(key) {
			key = key[strings.Index(key, "ip-")+len("ip-"):]
			keys = append(keys, strings.ReplaceAll(strings.TrimSuffix(key, "-443"), "-", "."))
		}
	}
	for _, addresses := range b.published {
		published = append(published, addresses...)
	}
	slices.Sort(want)
	slices.Sort(keys)
	slices.Sort(published)
	if !slices.Equal(want, keys) || !slices.Equal(want, published) {
		return fmt.Errorf("registered %v, published %v, want %v", keys, published, want)
	}
	return nil
}

// vandalize does to the instances' objects what people do, and enters an instance that is dead.
func vandalize(w *sim.World, r *rand.Rand) {
	admin, ctx := adminOf(w), context.Background()
	configMaps, leases, all := admin.CoreV1().ConfigMaps("ns"), admin.CoordinationV1().Leases("ns"),
		admin.DiscoveryV1().EndpointSlices("ns")
	patch := func(data string) {
		_, _ = configMaps.Patch(ctx, "web-endpoints", types.MergePatchType, []byte(data), metav1.PatchOptions{})
	}
	switch r.IntN(11) {
	case 0:
		_ = configMaps.Delete(ctx, "web-endpoints", metav1.DeleteOptions{})
		_ = leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	case 1:
		patch(`{"data":null}`)
	case 2:
		patch(`{"data":{"ip-10-0-0-97-443":null}}`)
		_ = leases.Delete(ctx, "ns.web.ip-10-0-0-97-443", metav1.DeleteOptions{})
	case 3:
		patch(`{"data":{"ip-10-0-0-97-443":"garbage"}}`)
	case 4:
		patch(`{"data":{"note":"not an instance"}}`)
	case 5:
		if store, _ := w.State.Load("store"); store == stores["Leases"] {
			_, _ = leases.Create(ctx, deadLease(), metav1.CreateOptions{})
			return
		}
		patch(`{"data":{"ip-10-0-0-7-443":` + quote(deadEntry) + `}}`)
	case 6:
		_ = all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	case 7:
		list, _ := all.List(ctx, metav1.ListOptions{})
		for _, s := range list.Items {
			_, _ = all.Patch(ctx, s.Name, types.MergePatchType, []byte(`{"endpoints":[{"addresses":["10.0.0.8"]}]}`),
				metav1.PatchOptions{})
		}
	case 8, 9:
		answerOddly(w, r)
	case 10:
		annotate(w, time.Duration(200+r.IntN(800))*time.Millisecond, 10+r.IntN(50))
	}
}

// answerOddly has proxies answer in the API server's place.
func answerOddly(w *sim.World, r *rand.Rand) {
	names := slices.Sorted(maps.Keys(oddAnswers))
	o := oddity{
		odd:   oddAnswers[names[r.IntN(len(names))]],
		until: time.Now().Add(time.Duration(1+r.IntN(30)) * time.Second),
	}
	o.odd.late = r.IntN(2) == 0
	store, _ := w.State.Load("store")
	kind := "ConfigMap"
	if store == stores["Leases"] {
		kind = "Leases"
	}
	if r.IntN(3) > 0 {
		o.request = requests[kind][r.IntN(len(requests[kind]))]
	}
	w.State.Store("oddity", o)
	value, _ := w.State.Load("book")
	value.(*book).seen.add("odd answers")
}

// annotate has somebody write the metadata of all that instances write, n times.
func annotate(w *sim.World, every time.Duration, n int) {
	if n == 0 {
		return
	}
	admin, ctx := adminOf(w), context.Background()
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{"somebody":"%d"}}}`, n)
	_, _ = admin.CoreV1().ConfigMaps("ns").Patch(ctx, "web-endpoints", types.MergePatchType, mark,
		metav1.PatchOptions{})
	leases, _ := admin.CoordinationV1().Leases("ns").List(ctx, metav1.ListOptions{})
	for _, l := range leases.Items {
		_, _ = admin.CoordinationV1().Leases("ns").Patch(ctx, l.Name, types.MergePatchType, mark, metav1.PatchOptions{})
	}
	all, _ := admin.DiscoveryV1().EndpointSlices("ns").List(ctx, metav1.ListOptions{})
	for _, s := range all.Items {
		_, _ = admin.DiscoveryV1().EndpointSlices("ns").Patch(ctx, s.Name, types.MergePatchType, mark,
			metav1.PatchOptions{})
	}
	value, _ := w.State.Load("book")
	value.(*book).seen.add("annotated")
	time.AfterFunc(every, func() { annotate(w, every, n-1) })
}

// resetExpiry changes the run-time setting.
func resetExpiry(w *sim.World, r *rand.Rand) {
	data := []string{
		`{"expire-duration":"5s"}`, `{"expire-duration":"1m"}`, `{"expire-duration":"20s"}`,
		`{"expire-duration":"garbage"}`,
		`{"expire-duration":"1ns"}`, `{"expire-duration":null}`, `{"expire-duration":"10m"}`,
	}
	_, _ = adminOf(w).CoreV1().ConfigMaps("ns").
		Patch(context.Background(), "settings", types.MergePatchType, []byte(`{"data":`+data[r.IntN(len(data))]+`}`),
			metav1.PatchOptions{})
}
