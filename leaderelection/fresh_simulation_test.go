package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestSimulatedFreshTerms has leaders whose caches live as long as their processes, and whose watches
// are late. A term that begins without what the terms before it have written is a violation.
func TestSimulatedFreshTerms(t *testing.T) {
	s := election((*sim.Process).Exit, meddle(byRenewal))
	s.Main, s.Check = runWarm, nil // the end may fall between two terms; Bound judges that they follow
	s.Duration, s.Quiet = 3*time.Minute, time.Minute
	s.Bound += 3 * time.Second // fresh.Wait
	sim.Prove(t, s, sim.Schedules(t, 200))
}

// runWarm is a program with a cache of ConfigMaps that its leaders write. It leads again and again.
// Every other replica steps down before its deadline.
func runWarm(ctx context.Context, p *sim.Process) {
	client := kubernetes.NewForConfigOrDie(p.Config())
	warm := fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: fresh.Source(client.CoreV1().ConfigMaps("ns")),
	}
	if strings.ContainsAny(p.Name[:1], "ab") { // on standby, it does not list at once
		warm.Source = fresh.NewRelister(warm.Source)
	}
	warm.Informer = cache.NewSharedIndexInformer(warm.Source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	running, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		warm.Informer.RunWithContext(running)
	}()
	defer func() {
		stop()
		<-stopped
	}()
	config := leaderelection.Config{}
	if strings.ContainsAny(p.Name[:1], "ace") {
		config.StepDown = 4 * time.Second
	}
	for ctx.Err() == nil {
		runElector(ctx, p, config, (*sim.Process).Exit,
			func(ctx context.Context, p *sim.Process, elector *leaderelection.Elector) error {
				return leadWarm(ctx, p, elector, warm)
			})
	}
}

// leadWarm waits for its cache, compares it with what the server had when the term began, and then
// writes at random for some seconds.
func leadWarm(ctx context.Context, p *sim.Process, elector *leaderelection.Elector, warm fresh.Cache) error {
	p.Begin("l")
	defer p.End("l")
	written := configMapsOf(p.World())
	if err := fresh.Wait(ctx, warm); err != nil {
		return err
	}
	if stale := staleness(warm, written); stale != "" {
		p.Fail("begins a term and does not see %s", stale)
	}
	config := p.Config()
	config.Wrap(elector.WrapTransport)
	guarded := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("ns")
	r := rand.New(rand.NewPCG(uint64(p.Clock.Now().Wall.UnixNano()), 0))
	for range 1 + r.IntN(15) {
		tick := p.Clock.NewTimer(400 * time.Millisecond)
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C():
		}
		if elector.IsLeader() {
			p.Act("l")
			writeSomething(ctx, guarded, r)
		}
	}
	return nil
}

// writeSomething changes one of a few ConfigMaps. Some writes change nothing, and of some the caller
// does not wait for the answer.
func writeSomething(ctx context.Context, client coreclient.ConfigMapInterface, r *rand.Rand) {
	if r.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
		defer cancel()
	}
	name, value := "c"+strconv.Itoa(r.IntN(4)), strconv.Itoa(r.IntN(3))
	switch r.IntN(6) {
	case 0:
		_ = client.Delete(ctx, name, metav1.DeleteOptions{})
	case 1, 2:
		_, _ = client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": value},
		}, metav1.CreateOptions{})
	default:
		patch := `{"data":{"n":"` + value + `"}}`
		_, _ = client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
}

// configMapsOf is what the server has now.
func configMapsOf(w *sim.World) *corev1.ConfigMapList {
	client := kubernetes.NewForConfigOrDie(w.Server.Client("somebody").Config()).CoreV1().ConfigMaps("ns")
	list, err := client.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return &corev1.ConfigMapList{}
	}
	return list
}

// staleness returns what a cache does not show of a list.
func staleness(c fresh.Cache, list *corev1.ConfigMapList) string {
	version := func(text string) (n uint64) {
		n, _ = strconv.ParseUint(text, 10, 64)
		return n
	}
	left := map[string]bool{}
	for _, o := range list.Items {
		left[o.Name] = true
		cached, exists, _ := c.Informer.GetStore().GetByKey("ns/" + o.Name)
		at := c.Informer.GetStore().LastStoreSyncResourceVersion()
		if exists && version(cached.(*corev1.ConfigMap).ResourceVersion) < version(o.ResourceVersion) ||
			!exists && version(at) < version(o.ResourceVersion) {
			return "version " + o.ResourceVersion + " of " + o.Name
		}
	}
	for _, o := range c.Informer.GetStore().List() {
		cached := o.(*corev1.ConfigMap)
		if !left[cached.Name] && version(cached.ResourceVersion) < version(list.ResourceVersion) {
			return "the deletion of " + cached.Name
		}
	}
	return ""
}
