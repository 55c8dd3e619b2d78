package shardertest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Ring is a ring with one shard, on client-go's fakes. All of its clients have the same objects.
// Its name is "test", the shard's identity is "test-0", and the namespace of its lease is
// "default".
type Ring struct {
	// Lease is the shard's. Run holds it, as does a program that calls its Run itself.
	Lease *shardlease.Lease
	// Shard is what the controller under test gets.
	Shard *shard.Shard

	// Client has the kinds of Kubernetes, while Dynamic and Metadata have all kinds.
	Client   *kubernetesfake.Clientset
	Dynamic  *dynamicfake.FakeDynamicClient
	Metadata *metadatafake.FakeMetadataClient
	// Tracker has the objects, for fakes of controller-runtime. Mapper has all kinds.
	Tracker clienttesting.ObjectTracker
	Mapper  meta.RESTMapper

	t       testing.TB
	config  Config
	objects objects

	mu      sync.Mutex
	part    func(func(context.Context) error) // guarded by mu: Go, while Run calls test
	running sync.WaitGroup
}

// New returns a ring, or fails the test if the configuration is wrong. In a bubble of
// testing/synctest, give it the bubble's t.
func New(t testing.TB, config Config) *Ring {
	t.Helper()
	kinds := config.kinds()
	mapper := config.mapper(kinds)
	o := objects{
		clienttesting.NewObjectTracker(kinds, serializer.NewCodecFactory(kinds).UniversalDecoder()), kinds, mapper,
	}
	r := &Ring{
		Client:   kubernetesfake.NewSimpleClientset(), // NewClientset is a hundred times slower in a bubble
		Dynamic:  dynamicfake.NewSimpleDynamicClient(kinds),
		Metadata: metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()),
		Tracker:  o, Mapper: mapper, t: t, config: config, objects: o,
	}
	r.Serve(&r.Client.Fake)
	o.serve(&r.Dynamic.Fake, asUnstructured(kinds))
	o.serve(&r.Metadata.Fake, asMetadata())
	var err error
	r.Lease, err = shardlease.New(r.Client, shardlease.Config{
		Namespace: "default", Ring: "test", Identity: "test-0",
		// The default ends the process, and with it all tests.
		OnLost: func(err error) { t.Errorf("shardertest: the shard lease is lost: %v", err) },
	})
	if err != nil {
		t.Fatalf("shardertest: %v", err)
	}
	r.Shard, err = shard.New(r.Metadata, mapper, r.Lease,
		shard.Config{Resources: config.Resources, Scheme: kinds, Unguarded: true})
	if err != nil {
		t.Fatalf("shardertest: %v (is each kind in Config.Scheme, or in Config.Kinds if it has no Go type?)", err)
	}
	return r
}

// Serve makes another fake clientset show the objects of the ring, such as one that client-gen has
// generated for your types: Serve(&clientset.Fake).
func (r *Ring) Serve(fake *clienttesting.Fake) { r.objects.serve(fake, form{}) }

// Run calls test while the shard holds its lease. ctx ends with the term of the lease, which ends
// when test has returned. Run returns when everything that [Ring.Go] has started has returned, and
// the lease is released. It reports errors to t. In test, t.FailNow and require work as in any
// test.
func (r *Ring) Run(test func(ctx context.Context)) {
	r.t.Helper()
	ctx, end := context.WithCancel(r.t.Context())
	held, tested, ended := make(chan context.Context, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := r.Lease.Run(ctx, func(ctx context.Context) error {
			held <- ctx
			<-ctx.Done()
			<-tested // it may start more
			r.running.Wait()
			return nil
		})
		if err != nil && !errors.Is(err, shardlease.ErrLost) { // OnLost has reported a loss
			r.t.Errorf("shardertest: %v", err)
		}
	}()
	defer func() { // even if test fails
		r.setPart(nil)
		close(tested)
		end()
		<-ended
	}()
	select {
	case ctx := <-held:
		r.setPart(func(run func(context.Context) error) { r.goPart(ctx, end, run) })
		test(ctx)
	case <-ended:
	}
}

// Go starts a part of the program, such as an informer or shard.RunController. Only the function
// that Run calls may call Go. ctx ends with the term. If run returns an error before that, the test
// fails, and if it fails an assertion, the term ends as well.
func (r *Ring) Go(run func(ctx context.Context) error) {
	r.t.Helper()
	r.mu.Lock()
	part := r.part
	r.mu.Unlock()
	if part == nil {
		r.t.Fatalf("shardertest: call Go in the function that Run calls")
		return
	}
	part(run)
}

func (r *Ring) setPart(part func(func(context.Context) error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part = part
}

func (r *Ring) goPart(ctx context.Context, end func(), run func(context.Context) error) {
	r.running.Go(func() {
		returned := false
		defer func() {
			if !returned { // t.FailNow: nothing may wait for what will not come
				end()
			}
		}()
		err := run(ctx)
		returned = true
		if err != nil && ctx.Err() == nil {
			r.t.Errorf("shardertest: what Go has started has returned an error: %v", err)
		}
	})
}

// Informer returns an informer of a resource of the ring, for shard.RunController, or to be run by
// [Ring.Go]. Its objects are typed if the scheme has their type.
func (r *Ring) Informer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	r.t.Helper()
	kind, err := r.Mapper.KindFor(resource)
	if err != nil {
		r.t.Fatalf("shardertest: %v", err)
	}
	example, err := r.objects.kinds.New(kind)
	if err != nil {
		r.t.Fatalf("shardertest: %v", err)
	}
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.objects.selected(resource, kind, o.LabelSelector)
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.objects.watch(clienttesting.NewRootWatchActionWithOptions(resource, o), form{})
		},
	}, r.Dynamic)
	if u, ok := example.(*unstructured.Unstructured); ok {
		u.SetGroupVersionKind(kind)
	}
	return r.Shard.NewInformer(source, example, 0, cache.Indexers{})
}

// Create creates an object, which the sharder has not assigned yet. Kubernetes' kinds, and those of your
// own clientset, can be created with their clients as well.
func (r *Ring) Create(obj shard.Object) {
	r.t.Helper()
	if err := r.objects.create(obj); err != nil {
		r.t.Fatalf("shardertest: Create: %v", err)
	}
}

// Get reads the object that has the kind, the namespace and the name of obj into obj, or fails the
// test if it does not exist.
func (r *Ring) Get(obj shard.Object) {
	r.t.Helper()
	if err := r.objects.read(obj); err != nil {
		r.t.Fatalf("shardertest: Get: %v", err)
	}
}
