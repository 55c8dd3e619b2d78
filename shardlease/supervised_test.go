package shardlease_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// latecomerEnv makes the test binary a supervised process that claims a name of a large ring, and
// finds each of its first names taken.
const latecomerEnv = "BELLWETHER_TEST_LATECOMER"

const takenNames = 300

func claimLate() {
	parent := supervisor.Start()
	client := &fake.Clientset{}
	client.AddReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		l := &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for i := range takenNames {
			l.Items = append(l.Items, *shardLease(fmt.Sprint("r-", i), false))
		}
		return true, l, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	client.AddReactor("get", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if asked++; asked == takenNames {
			cancel()
		}
		return true, shardLease(a.(clienttesting.GetAction).GetName(), true), nil // another Pod was faster
	})
	_, err := shardlease.ClaimOrdinal(ctx, client, shardlease.Config{
		Namespace: "ns", Ring: "r", Supervisor: parent.Client(&rest.Config{Host: "h"}),
	})
	fmt.Println(err)
	os.Exit(0)
}

// shardLease is the Lease of a shard that holds it, or is expected back.
func shardLease(name string, held bool) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Now().Truncate(time.Second))
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, ResourceVersion: "1", Labels: map[string]string{shardlease.RingLabel: "r"},
			Annotations: map[string]string{"ring.bellwether.dev/epoch": "1"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(name), AcquireTime: &at, RenewTime: &at, LeaseTransitions: ptr.To[int32](0),
			LeaseDurationSeconds: ptr.To[int32](15),
		},
	}
	if !held {
		l.Spec.HolderIdentity = ptr.To("")
		lease.SetProcess(l, "")
		l.Annotations["ring.bellwether.dev/return-within-seconds"] = "3600"
	}
	return l
}

func TestLostRacesForNamesTakeNoPlaceOfTheSupervisor(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), program)
	c.Env = append(os.Environ(), latecomerEnv+"=1")
	said, err := c.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Equal(t, "shardlease: claim a name: context canceled\n", string(said))
}
