package leaderelection_test

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// panicLeading is a daemon whose work panics with a value that waits for the next write of the Lease,
// and says what that is. Other goroutines run meanwhile, also those of the work.
func panicLeading() {
	client := fake.NewClientset()
	writes := make(chan *coordinationv1.Lease, 100)
	client.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		writes <- a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		return false, nil, nil
	})
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: "a", // it renews every second, and has a minute for it
		LeaseDuration: 61 * time.Second, MissedRenewals: 59, Margin: time.Second,
	})
	if err != nil {
		panic(err)
	}
	err = elector.Run(context.Background(), func(context.Context) error { panic(slowly(writes)) })
	fmt.Println("Run has returned", err)
	os.Exit(0)
}

type slowly <-chan *coordinationv1.Lease

// Error implements error.
func (s slowly) Error() string { return fmt.Sprintf("the holder is %q", *(<-s).Spec.HolderIdentity) }

func TestLeaseIsHeldUntilAPanicHasEndedTheProcess(t *testing.T) {
	t.Parallel()
	said, err := loser(t, "panic").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAsf(t, err, &exit, "%s", said)
	assert.Equal(t, 2, exit.ExitCode())
	assert.Contains(t, string(said), `the holder is "a"`)
	assert.Contains(t, string(said), "leaderelection_test.panicLeading.func", "where it was")
}
