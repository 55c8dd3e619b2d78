package sharder

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// toll counts the requests of the latest sharder.
type toll struct {
	mu    sync.Mutex
	count map[string]int // such as "LIST configmaps"
}

// deny answers the latest sharder's patches of one object with refusal, unless refusal is nil. It
// counts the sharder's requests from now on.
func (k *cluster) deny(name string, refusal error) *toll {
	t := &toll{count: map[string]int{}}
	k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
		verb, path := q.Method, strings.Split(q.URL.Path, "/")
		resource := path[len(path)-1]
		switch {
		case q.URL.Query().Get("watch") != "":
			return nil
		case verb == http.MethodGet && (resource == "configmaps" || resource == "leases" || resource == "pods"):
			verb = "LIST"
		default:
			resource = path[len(path)-2]
		}
		t.mu.Lock()
		t.count[verb+" "+resource]++
		t.mu.Unlock()
		if refusal == nil || q.Method != http.MethodPatch || path[len(path)-1] != name {
			return nil
		}
		return answer(q, refusal)
	}})
	return t
}

// answer returns the response of an API server that refuses a request.
func answer(q *http.Request, refusal error) *http.Response {
	s := refusal.(apierrors.APIStatus).Status() //nolint:forcetypeassert // what the test says
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, _ := json.Marshal(s)
	return &http.Response{
		StatusCode: int(s.Code), Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// take returns the requests since its last call.
func (t *toll) take() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.count
	t.count = map[string]int{}
	return taken
}

// refusals returns the errors that a policy may answer to a patch.
func refusals() map[string]error {
	const why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "x", fmt.Errorf("%s", why))
	invalid := apierrors.NewForbidden(corev1.Resource("configmaps"), "x", fmt.Errorf("%s", why))
	invalid.ErrStatus.Reason, invalid.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	return map[string]error{"403": forbidden, "422": invalid}
}

// warnings returns the warnings of the sharders that run with a config.
func warnings(c *Config) *observer.ObservedLogs {
	core, logs := observer.New(zap.WarnLevel)
	c.Logger = c.Logger.WithOptions(zap.WrapCore(func(tee zapcore.Core) zapcore.Core {
		return zapcore.NewTee(tee, core)
	}))
	return logs
}

// warned returns the number of warnings about an object.
func warned(logs *observer.ObservedLogs, name string) int {
	return logs.FilterField(zap.String("name", name)).Len()
}

// An object that a policy denies costs few requests. The sharder tries it less and less often, and
// does nothing else for it.
func TestAnObjectThatAPolicyDeniesCostsLittle(t *testing.T) {
	for name, refusal := range refusals() {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.config()
				c.ScanInterval = time.Minute
				logs := warnings(&c)
				stop, _ := k.settledWith(100, c, "a", "b")
				defer stop()
				toll := k.deny("p-000", refusal)
				k.create(1, "p")
				time.Sleep(10 * time.Minute)
				asked := toll.take()
				assert.LessOrEqual(t, asked["LIST configmaps"], 10+7,
					"one scan per minute, and those that look whether it is better now: %v", asked)
				assert.LessOrEqual(t, asked["PATCH configmaps"], 10+20, "%v", asked)
				assert.LessOrEqual(t, asked["GET configmaps"], 10+20, "%v", asked)
				assert.Equal(t, 1, warned(logs, "p-000"), "it is said once")

				// The sharder does no more for it while it has to repair another object all the
				// time, not so often that this has to wait.
				for range 20 {
					k.edit("o-000", `{"metadata":{"labels":{"`+k.keys.Shard+`":null}}}`)
					time.Sleep(30*time.Second + time.Millisecond)
				}
				asked = toll.take()
				assert.LessOrEqual(t, asked["LIST configmaps"], 10+7, "%v", asked)
				k.create(100, "q")
				time.Sleep(time.Second)
				assert.Equal(t, 1, k.owners()["-"])

				k.connection.Inject(apisim.Faults{})
				time.Sleep(time.Minute)
				k.requirePlaced(201, "a", "b")
			})
		})
	}
}

// A record that names an epoch that has never begun counts as no record. The sharder asks every
// shard that may have owned the object, and does so once.
func TestARecordOfAnEpochThatHasNeverBeenIsDealtWithOnce(t *testing.T) {
	for _, family := range []bool{false, true} {
		t.Run(fmt.Sprint("children ", family), func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.config()
				if family {
					c = k.familyConfig()
				}
				logs := warnings(&c)
				stop, shards := k.settledWith(100, c, "a", "b")
				defer stop()
				toll := k.deny("", nil)
				for i, o := range k.objects()[:2] {
					r, ok := k.keys.RecordOf(&o)
					require.True(t, ok)
					r.Epoch += 7
					if i == 1 {
						r.Left = []protocol.OwnerEpoch{r.Owner(), {Shard: "b", LeaseUID: "no such Lease", Epoch: 1}}
					}
					_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), o.Name,
						types.MergePatchType,
						k.keys.MergePatch(o.UID, o.ResourceVersion, "x", false, &r), metav1.PatchOptions{})
					require.NoError(t, err)
				}
				time.Sleep(time.Minute)
				k.requirePlaced(100, "a", "b")
				time.Sleep(9 * time.Minute)
				asked := toll.take()
				assert.LessOrEqual(t, asked["LIST configmaps"], 10, "%v", asked)
				assert.LessOrEqual(t, asked["GET leases"], 20, "%v", asked)
				assert.LessOrEqual(t, asked["PATCH configmaps"], 10, "%v", asked)
				assert.Equal(t, 2, logs.FilterMessageSnippet("never existed").Len(), "it is said once of each")
				for _, s := range shards {
					s.release()
				}
			})
		})
	}
}

// A shard may begin the epoch of a forged record before the sharder has annulled the record. Then
// the sharder asks the shard to let go of the object.
func TestAForgedEpochThatBeginsMeanwhileIsAskedToLetGo(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(10, k.config(), "a", "b")
		defer stop()
		var o metav1.PartialObjectMetadata
		for _, o = range k.objects() {
			if k.keys.ShardOf(&o) == "b" {
				break
			}
		}
		r, _ := k.keys.RecordOf(&o)
		lease, err := k.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		r.Shard, r.LeaseUID, r.Epoch = "a", lease.UID, 2
		late := make(chan struct{})
		k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/"+o.Name) {
				<-late
			}
			return nil
		}})
		_, err = k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), o.Name,
			types.MergePatchType,
			k.keys.MergePatch(o.UID, o.ResourceVersion, "a", true, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		shards[0].release()
		a := k.shard("a") // in epoch 2
		stubborn(true, a)
		time.Sleep(time.Second)
		close(late)
		time.Sleep(time.Minute)
		now := k.objectOf(o.Name)
		assert.Equal(t, "a", k.keys.ShardOf(now), "it has not said that it does not work by the forged record")
		assert.True(t, k.keys.Draining(now))
		stubborn(false, a)
		time.Sleep(time.Minute)
		k.requirePlaced(10, "a", "b")
		assert.Positive(t, a.acks.Load())
	})
}

func (k *cluster) objectOf(name string) *metav1.PartialObjectMetadata {
	k.t.Helper()
	o, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Get(k.t.Context(), name, metav1.GetOptions{})
	require.NoError(k.t, err)
	return o
}

// A child that cannot be patched keeps its root from its next shard, and costs few requests.
func TestAChildThatAPolicyDeniesCostsLittle(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.ScanInterval = time.Minute
		logs := warnings(&c)
		stop, shards := k.settledWith(40, c, "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(5 * time.Minute)
		moved := k.rootsOf("a")
		root := k.objectOf(moved[0])
		toll := k.deny(k.children()[root.UID][0].Name, refusals()["422"])
		shards[0].release()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, map[string]int{"a": 1, "b": 39}, k.owners())
		asked := toll.take()
		assert.LessOrEqual(t, asked["LIST configmaps"], 10+10, "%v", asked)
		assert.LessOrEqual(t, asked["GET configmaps"], len(moved)+2*(10+30),
			"each root that moves; the root, and that of the child: %v", asked)
		assert.LessOrEqual(t, asked["LIST pods"], 3*(10+20), "%v", asked)
		assert.Equal(t, 1, warned(logs, root.Name))

		// Moves of other roots do not make the sharder list all children.
		k.shard("c")
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, k.owners()["a"])
		k.connection.Inject(apisim.Faults{})
		time.Sleep(time.Minute)
		k.requirePlaced(40, "b", "c")
		k.requireFamilies(1)
	})
}

// While one object is displaced, the history does not grow with each shard that comes and goes.
func TestAnObjectThatAPolicyDeniesDoesNotKeepTheHistoryGrowing(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.GCPeriod, c.ScanInterval = time.Minute, time.Minute
		stop, shards := k.settledWith(40, c, "a-0", "b-0")
		defer func() { stop() }()
		denied := k.rootsOf("a-0")[0]
		k.deny(denied, refusals()["403"])
		for i := 1; i <= 10; i++ {
			fresh := []*testShard{k.shard(fmt.Sprint("a-", i)), k.shard(fmt.Sprint("b-", i))}
			time.Sleep(30 * time.Second)
			for _, s := range shards {
				s.release()
			}
			shards = fresh
			time.Sleep(time.Minute)
		}
		time.Sleep(20 * time.Minute)
		assert.Equal(t, map[string]int{"a-0": 1, "a-10": k.owners()["a-10"], "b-10": k.owners()["b-10"]}, k.owners())
		m, err := k.kube.CoreV1().ConfigMaps(testNamespace).Get(t.Context(), HistoryName(testRing), metav1.GetOptions{})
		require.NoError(t, err)
		h, err := protocol.ParseHistory(m.Data[historyKey])
		require.NoError(t, err)
		assert.Len(t, h.Memberships, 1)
		leases, err := k.kube.CoordinationV1().Leases(testNamespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.LessOrEqual(t, len(leases.Items), 3, "two that live, and one that an object names")
		assert.NotContains(t, k.told(), "settled [a-10 b-10]")

		// The next sharder knows as much, and assigns the object once it may be patched.
		stop()
		stop = k.sharder(c)
		time.Sleep(5 * time.Minute)
		k.requirePlaced(40, "a-10", "b-10")
		assert.Contains(t, k.told(), "settled [a-10 b-10]")
	})
}

// A displaced object that has lost its record is taken from every shard that may have owned it when
// the rest of the ring was settled.
func TestADisplacedObjectIsTakenFromEveryPossibleOwner(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.ScanInterval = time.Minute
		stop, shards := k.settledWith(40, c, "a", "b")
		defer func() { stop() }()
		stubborn(true, shards[0])
		k.shard("c")
		time.Sleep(10 * time.Second)
		var moving []string
		for _, o := range k.objects() {
			if k.keys.Draining(&o) {
				moving = append(moving, o.Name)
			}
		}
		require.NotEmpty(t, moving)
		time.Sleep(5 * time.Minute)
		assert.Len(t, k.historyNow().Memberships, 1)
		shards[1].release() // another membership, under which a was never the owner
		time.Sleep(5 * time.Minute)
		assert.Len(t, k.historyNow().Memberships, 1)
		stop()
		k.edit(moving[0], `{"metadata":{"labels":null,"annotations":null}}`)
		k.patched()
		stop = k.sharder(c)
		time.Sleep(time.Minute)
		o := k.objectOf(moving[0])
		assert.Equal(t, "a", k.keys.ShardOf(o), "it may be at work")
		assert.True(t, k.keys.Draining(o))
		stubborn(false, shards...)
		time.Sleep(3 * time.Minute)
		k.requirePlaced(40, "a", "c")
		assert.Empty(t, k.historyNow().Displaced)
	})
}

// historyNow reads the stored history.
func (k *cluster) historyNow() protocol.History {
	m, err := k.kube.CoreV1().ConfigMaps(testNamespace).Get(context.WithoutCancel(k.t.Context()),
		HistoryName(testRing), metav1.GetOptions{})
	require.NoError(k.t, err)
	h, err := protocol.ParseHistory(m.Data[historyKey])
	require.NoError(k.t, err)
	return h
}

// hungPatches are the sharder's patches of objects that hang.
type hungPatches struct {
	mu    sync.Mutex
	under map[string]bool // by path: one is under way
	most  int             // that were under way at a time
}

// hang makes the sharder's patches of objects with this prefix take a time, and then fail, as those do
// whose webhook cannot be reached. The test fails if two patches of one object are under way at a time.
func (k *cluster) hang(prefix string, d time.Duration) *hungPatches {
	p := &hungPatches{under: map[string]bool{}}
	k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
		path := strings.Split(q.URL.Path, "/")
		if q.Method != http.MethodPatch || !strings.HasPrefix(path[len(path)-1], prefix) {
			return nil
		}
		p.mu.Lock()
		assert.False(k.t, p.under[q.URL.Path], "two patches of %s", q.URL.Path)
		p.under[q.URL.Path] = true
		p.most = max(p.most, len(p.under))
		p.mu.Unlock()
		clock.Sleep(q.Context(), d) // less, if the sharder gives up
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.under, q.URL.Path)
		return answer(q, apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded")))
	}})
	return p
}

// Objects whose patches hang delay others only by their first attempts. They find their shards when the
// webhook can be reached again.
func TestObjectsWhosePatchesHangDoNotDelayOthers(t *testing.T) {
	const hanging, timeout = 200, 10 * time.Second
	for _, concurrency := range []int{0, 1, 2} {
		t.Run(fmt.Sprint("concurrency ", concurrency), func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.config()
				c.Concurrency = concurrency
				stop, _ := k.settledWith(20, c, "a", "b")
				defer stop()
				k.hang("bad", timeout)
				k.create(hanging, "bad")
				time.Sleep(2*timeout + hanging*longAfter/time.Duration(cmp.Or(concurrency, 16)))
				for i := range 10 {
					k.create(10, fmt.Sprint("good-", i))
					time.Sleep(time.Second)
					assert.Equal(t, hanging, k.owners()["-"])
				}
				k.connection.Inject(apisim.Faults{})
				time.Sleep(time.Minute)
				k.requirePlaced(20+hanging+100, "a", "b")
			})
		})
	}
}

// A thousand objects hang, before as many others: until one of them has failed, and then a quarter of a
// second for each that a worker begins. Few of their requests are under way at a time.
func TestFirstAttemptsThatHangDelayOthersForSeconds(t *testing.T) {
	const hanging = 1000
	for name, c := range map[string]struct{ timeout, within time.Duration }{
		"a webhook's default timeout": {10 * time.Second, 30 * time.Second},
		"no answer":                   {time.Hour, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				config := k.config()
				again := tryAgainLater(t, &config)
				stop, _ := k.settledWith(20, config, "a", "b")
				defer stop()
				hung := k.hang("bad", c.timeout)
				began := time.Now()
				k.create(hanging, "bad")
				k.create(hanging, "good")
				for k.owners()["-"] > hanging && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
				}
				took := time.Since(began)
				t.Logf("the others have their shards after %v; at most %d patches at a time", took, hung.most)
				assert.LessOrEqual(t, took, c.within)
				assert.Equal(t, hanging, k.owners()["-"])
				assert.LessOrEqual(t, hung.most, 5*16)
				k.connection.Inject(apisim.Faults{})
				time.Sleep(2 * time.Minute)
				k.requirePlaced(20+2*hanging, "a", "b")
				assert.Greater(t, again.Load(), int64(100))
			})
		})
	}
}

// tryAgainLater has the test fail if an object is patched again before a patch that was given up has
// certainly ended. It counts the objects that are.
func tryAgainLater(t *testing.T, c *Config) (again *atomic.Int64) {
	var givenUp sync.Map // when, by object
	again = &atomic.Int64{}
	onPatch := c.Hooks.OnPatch
	c.Hooks.OnPatch = func(p Patch) {
		onPatch(p)
		if at, ok := givenUp.LoadAndDelete(p.Object); ok {
			again.Add(1)
			assert.GreaterOrEqual(t, time.Since(at.(time.Time))-p.Latency, kube.RequestTimeout, p.Object)
		}
		if errors.Is(p.Err, context.Canceled) {
			givenUp.Store(p.Object, time.Now())
		}
	}
	return again
}

// All patches take long, and succeed, but for one that has failed before. More than Concurrency are under
// way, and none is given up.
func TestSlowPatchesAreNotGivenUp(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		logs := warnings(&c)
		stop, _ := k.settledWith(20, c, "a", "b")
		defer stop()
		k.hang("bad", 10*time.Second)
		k.create(1, "bad")
		time.Sleep(15 * time.Second)
		k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.Method == http.MethodPatch {
				clock.Sleep(q.Context(), 5*time.Second)
			}
			return nil
		}})
		k.create(500, "slow")
		time.Sleep(time.Minute)
		assert.Zero(t, logs.FilterFieldKey("name").Len()-warned(logs, "bad-000"))
		k.requirePlaced(521, "a", "b")
	})
}

// The children of one root hang. The other roots that move with it wait for one attempt at a time.
func TestARootWhoseChildrenHangDoesNotDelayOthers(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		const timeout = 10 * time.Second
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(time.Minute)
		mine := k.rootsOf("a")
		bad, err := k.kube.CoreV1().ConfigMaps("default").Get(t.Context(), mine[0], metav1.GetOptions{})
		require.NoError(t, err)
		for range 300 {
			k.bearOne(bad, "a")
		}
		time.Sleep(time.Minute)
		names := map[string]bool{}
		for _, child := range k.children()[bad.UID] {
			names[child.Name] = true
		}
		k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.Method != http.MethodPatch || !names[path.Base(q.URL.Path)] || !clock.Sleep(q.Context(), timeout) {
				return nil
			}
			return answer(q, apierrors.NewInternalError(errors.New("failed calling webhook")))
		}})
		shards[0].release()
		time.Sleep(3 * timeout)
		assert.Equal(t, []string{mine[0]}, k.rootsOf("a"))
		k.connection.Inject(apisim.Faults{})
		time.Sleep(2 * time.Minute)
		k.requirePlaced(20, "b")
	})
}
