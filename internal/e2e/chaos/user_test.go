package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

const (
	// wantedLabel is on all objects that are distributed.
	wantedLabel = "chaos.bellwether.dev/checksum"
	// parentLabel is on children, and has the UID of the parent.
	parentLabel = "chaos.bellwether.dev/parent"
)

// users change objects all the time, and know nothing of shards; or enough to do harm.
type users struct {
	c       *cluster
	objects typedcorev1.ConfigMapInterface
	secrets typedcorev1.SecretInterface // children

	mu     sync.Mutex
	random *rand.Rand
	names  []string
	serial int
	gone   []gone
}

// gone is a deleted object. Its children have to follow, as with the garbage collector.
type gone struct {
	uid   types.UID
	since time.Time
}

// collectAfter is how long work may go on on a deleted object.
const collectAfter = 20 * time.Second

// blank is a new object: half of them are named by the API server.
func (u *users) blank() *corev1.ConfigMap {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serial++
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:   fmt.Sprintf("o-%d", u.serial),
		Labels: map[string]string{wantedLabel: "wanted"},
	}, Data: u.data()}
	if u.serial%2 == 0 {
		m.Name, m.GenerateName = "", "o-"
	}
	return m
}

// data is new data. The caller holds the mutex.
func (u *users) data() map[string]string {
	return map[string]string{"value": fmt.Sprintf("%x", u.random.Uint64())}
}

func (u *users) create(ctx context.Context) error {
	return u.add(ctx, u.blank())
}

// vary creates an object or deletes one, so that there are always about as many.
func (u *users) vary(ctx context.Context) error {
	u.mu.Lock()
	surplus := len(u.names) - u.c.plan.objects + u.random.IntN(20) - 10
	u.mu.Unlock()
	if surplus > 0 {
		return u.drop(ctx)
	}
	return u.create(ctx)
}

// recount reads which objects exist: the outcome of some creations and deletions is unknown.
func (u *users) recount(ctx context.Context) error {
	all, err := u.objects.List(ctx, metav1.ListOptions{LabelSelector: wantedLabel})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names = u.names[:0]
	for i := range all.Items {
		u.names = append(u.names, all.Items[i].Name)
	}
	return nil
}

func (u *users) add(ctx context.Context, m *corev1.ConfigMap) error {
	m, err := u.objects.Create(ctx, m, metav1.CreateOptions{})
	if err == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.names = append(u.names, m.Name)
	}
	return err
}

// someShard returns the name of one that runs.
func (u *users) someShard() string {
	names := slices.Sorted(maps.Keys(u.c.alive()))
	if len(names) == 0 {
		return "none"
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return names[u.random.IntN(len(names))]
}

// pick returns the name of some object.
func (u *users) pick() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[u.random.IntN(len(u.names))]
}

// drop deletes an object.
func (u *users) drop(ctx context.Context) error {
	u.mu.Lock()
	i := u.random.IntN(len(u.names))
	name := u.names[i]
	u.names[i] = u.names[len(u.names)-1]
	u.names = u.names[:len(u.names)-1]
	u.mu.Unlock()
	return u.remove(ctx, name)
}

func (u *users) remove(ctx context.Context, name string) error {
	m, err := u.objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.gone = append(u.gone, gone{m.UID, time.Now()})
	u.mu.Unlock()
	return u.objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))})
}

// recreate deletes an object and creates another of its name.
func (u *users) recreate(ctx context.Context) error {
	m := u.blank()
	m.Name, m.GenerateName = u.provoke(ctx), ""
	if err := u.remove(ctx, m.Name); err != nil {
		return err
	}
	_, err := u.objects.Create(ctx, m, metav1.CreateOptions{})
	return err
}

// collect repeatedly counts the objects, and deletes the children of objects deleted a while ago,
// until ctx ends. An object that still exists, because its deletion failed, keeps its children.
func (u *users) collect(ctx context.Context) {
	for seconds := 1; e2e.Pause(ctx, time.Second); seconds++ {
		if seconds%60 == 0 {
			_ = u.recount(ctx) // or in a minute
		}
		u.mu.Lock()
		var due []gone
		for len(u.gone) > 0 && time.Since(u.gone[0].since) > collectAfter {
			due, u.gone = append(due, u.gone[0]), u.gone[1:]
		}
		u.mu.Unlock()
		for _, g := range due {
			u.c.judge.mu.Lock()
			o := u.c.judge.ownership.objects[g.uid]
			deleted := o == nil || !o.deleted.IsZero()
			u.c.judge.mu.Unlock()
			if deleted {
				_ = u.secrets.DeleteCollection(ctx, metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: parentLabel + "=" + string(g.uid)})
			}
		}
	}
}

// editChild changes the shard label of a child with a fixed name. A shard that could no longer see
// a child with a generated name would create another.
func (u *users) editChild(name string, value func() string) func(context.Context) {
	return u.counted(name, func(ctx context.Context) error {
		name := u.provoke(ctx)
		m, err := u.objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		children, err := u.secrets.List(ctx, metav1.ListOptions{LabelSelector: parentLabel + "=" + string(m.UID)})
		if err != nil || len(children.Items) == 0 || children.Items[0].GenerateName != "" {
			return err
		}
		_, err = u.secrets.Patch(ctx, children.Items[0].Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, shardLabel, value()), metav1.PatchOptions{})
		return err
	})
}

func (u *users) update(ctx context.Context) error { return u.change(ctx, u.pick()) }

func (u *users) change(ctx context.Context, name string) error {
	u.mu.Lock()
	data := u.data()["value"]
	u.mu.Unlock()
	return u.patch(ctx, name, `{"data":{"value":%q}}`, data)
}

// provoke returns the name of an object that a shard may be working on.
func (u *users) provoke(ctx context.Context) string {
	name := u.pick()
	if u.change(ctx, name) == nil {
		e2e.Pause(ctx, rand.N(30*time.Millisecond))
	}
	return name
}

// patch changes an object whatever its version is.
func (u *users) patch(ctx context.Context, name, patch string, args ...any) error {
	_, err := u.objects.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, patch, args...), metav1.PatchOptions{})
	return err
}

// replace writes an object as its manifest has it: everything that the protocol and the work have
// written is gone.
func (u *users) replace(ctx context.Context) error {
	m := u.blank()
	m.Name, m.GenerateName = u.provoke(ctx), ""
	_, err := u.objects.Update(ctx, m, metav1.UpdateOptions{})
	return err
}

// clone creates an object with everything that another carries.
func (u *users) clone(ctx context.Context) error {
	m, err := u.objects.Get(ctx, u.pick(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	delete(m.Annotations, byAnnotation) // or the referee would take it for work
	return u.add(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "clone-", Labels: m.Labels,
			Annotations: m.Annotations,
		}, Data: m.Data})
}

// edits are what users do to the labels of objects.
func (u *users) edits() []func(context.Context) {
	metadata := func(name string, patch func() string) func(context.Context) {
		return u.counted(name, func(ctx context.Context) error {
			name := u.provoke(ctx)
			return u.patch(ctx, name, `{"metadata":%s}`, patch())
		})
	}
	return []func(context.Context){
		metadata("shard label removed", func() string { return fmt.Sprintf(`{"labels":{%q:null}}`, shardLabel) }),
		metadata("label of another shard",
			func() string { return fmt.Sprintf(`{"labels":{%q:%q}}`, shardLabel, u.someShard()) }),
		metadata("label of another shard, without drain", func() string {
			return fmt.Sprintf(`{"labels":{%q:%q,%q:null}}`, shardLabel, u.someShard(), drainLabel)
		}),
		metadata("label of no shard", func() string { return fmt.Sprintf(`{"labels":{%q:"none"}}`, shardLabel) }),
		metadata("drain label set", func() string { return fmt.Sprintf(`{"labels":{%q:"user"}}`, drainLabel) }),
		metadata("drain label removed", func() string { return fmt.Sprintf(`{"labels":{%q:null}}`, drainLabel) }),
		metadata("record removed", func() string { return fmt.Sprintf(`{"annotations":{%q:null}}`, ownerAnnotation) }),
		metadata("record and label replaced", func() string {
			return fmt.Sprintf(`{"labels":{%q:%q},"annotations":{%q:null}}`, shardLabel, u.someShard(), ownerAnnotation)
		}),
		u.counted("replaced by its manifest", u.replace),
		u.counted("cloned with its labels", u.clone),
		u.undrain(),
		u.editChild("child's label removed", func() string { return "null" }),
		u.editChild("child's label of another shard", func() string { return strconv.Quote(u.someShard()) }),
	}
}

// undrain removes the label of an object that is drained.
func (u *users) undrain() func(context.Context) {
	return u.counted("drain removed while drained", func(ctx context.Context) error {
		drained, err := u.objects.List(ctx, metav1.ListOptions{LabelSelector: drainLabel, Limit: 10})
		if err != nil || len(drained.Items) == 0 {
			return err
		}
		return u.patch(ctx, drained.Items[0].Name, `{"metadata":{"labels":{%q:null}}}`, drainLabel)
	})
}

// counted counts the successful attempts of a user: while the API server is down all fail.
func (u *users) counted(name string, do func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if do(ctx) == nil {
			u.c.happened.Count(name)
		}
	}
}

// populate creates the first objects.
func (u *users) populate(ctx context.Context, n int) {
	var creating sync.WaitGroup
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	for range 16 {
		creating.Go(func() {
			for range left {
				assert.NoError(u.c.t, u.create(ctx))
			}
		})
	}
	creating.Wait()
}

// carryOn does things to objects, so many per second, until ctx has ended.
func (u *users) carryOn(ctx context.Context, random *rand.Rand, rate int) {
	vary, update := u.counted("created or deleted", u.vary), u.counted("updated", u.update)
	things := e2e.NewDeck(random,
		[]func(context.Context){vary, vary, u.counted("recreated", u.recreate), update, update, update, update, update})
	for e2e.Pause(ctx, e2e.Between(random, 0, 2*time.Second/time.Duration(rate))) {
		things.Draw()(ctx)
	}
}

// weigh gives shards other weights, with at most rest between them, until ctx has ended. Once in a while it
// drains one, or lets it have its own weight again.
func (u *users) weigh(ctx context.Context, random *rand.Rand, rest time.Duration) {
	weights := e2e.NewDeck(random, []string{`"0"`, `"5"`, `"20"`, `"300"`, `"1000"`, "null", "null"})
	for e2e.Pause(ctx, e2e.Between(random, 0, rest)) {
		_, err := u.c.client.CoordinationV1().Leases(u.c.namespace).Patch(ctx, u.someShard(), types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, shardlease.WeightAnnotation, weights.Draw()),
			metav1.PatchOptions{})
		if err == nil { // or the API server is down, or the shard is gone
			u.c.happened.Count("another weight")
		}
	}
}

// meddle edits labels, so often per second, until ctx has ended.
func (u *users) meddle(ctx context.Context, random *rand.Rand, rate int) {
	deck := e2e.NewDeck(random, u.edits())
	for e2e.Pause(ctx, e2e.Between(random, 0, 2*time.Second/time.Duration(rate))) {
		deck.Draw()(ctx)
	}
}
