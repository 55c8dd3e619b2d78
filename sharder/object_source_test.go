package sharder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// A watch that the server opens and that then fails at once is no success: lists become as rare as
// when it cannot be opened. After one that has lasted, or has shown something, the next list is soon.
func TestAWatchThatFailsAtOnceCostsFewLists(t *testing.T) {
	for name, c := range map[string]struct {
		shows       bool
		lasts       time.Duration
		least, most int
	}{
		"at once":             {least: 40, most: 60},
		"after an object":     {shows: true, least: 5000, most: 6001},
		"after two seconds":   {lasts: 2 * time.Second, least: 280, most: 300},
		"after half a second": {lasts: time.Second / 2, least: 40, most: 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, meta := fakes(t)
				lists := 0
				meta.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					lists++
					return false, nil, nil
				})
				meta.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
					w := watch.NewRaceFreeFake()
					if c.shows {
						w.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
							Namespace: "default", Name: "o", ResourceVersion: "7",
						}})
					}
					failure := apierrors.NewInternalError(errors.New("conversion webhook failed")).Status()
					time.AfterFunc(c.lasts, func() { w.Error(&failure) })
					return true, w, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				source{
					client:   meta.Resource(ringtest.ConfigMaps),
					resource: protocol.Resource{Resource: api.Resource{GVR: ringtest.ConfigMaps}},
					selector: labels.Everything(), page: newPageSize(500), log: zap.NewNop(),
				}.run(ctx, sink{found: func(*metav1.PartialObjectMetadata) bool { return true }})
				assert.GreaterOrEqual(t, lists, c.least)
				assert.LessOrEqual(t, lists, c.most)
			})
		})
	}
}

func TestStraysAreAllThatIsWithNoMember(t *testing.T) {
	n := protocol.KeysOf("r")
	s := strays(protocol.NewMembership(protocol.OwnerEpoch{Shard: "a"}, protocol.OwnerEpoch{Shard: "b"}), n,
		ringtest.SelectorOf(t, "x=y"))
	assert.Equal(t, "shard.bellwether.dev/r notin (a,b),x=y", s.String())
	for label, want := range map[string]bool{"": true, "a": false, "b": false, "c": true} {
		assert.Equal(t, want, s.Matches(labels.Set{"x": "y", n.Shard: label}), label)
	}
	assert.True(t, s.Matches(labels.Set{"x": "y"}))
	assert.False(t, s.Matches(labels.Set{}))
}

func TestASelectorThatIsTooLongForAURLIsNotUsed(t *testing.T) {
	var members []protocol.OwnerEpoch
	for i := range 200 {
		members = append(members,
			protocol.OwnerEpoch{Shard: fmt.Sprintf("controller-7d9f8b6c5-%05d", i), LeaseUID: "l", Epoch: 1})
	}
	s := strays(protocol.NewMembership(members...), protocol.KeysOf("r"), labels.Everything())
	assert.Equal(t, "!shard.bellwether.dev/r", s.String())
}
