package leaderelection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// loserEnv makes the test binary a daemon that loses its leadership after a second.
const loserEnv = "BELLWETHER_TEST_LOSER"

func loseLeadership() {
	switch os.Getenv(loserEnv) {
	case "released":
		releaseLate()
	case "panic":
		panicLeading()
	}
	client := fake.NewClientset()
	config := leaderelection.Config{
		// It renews every second, and has a minute for it: that the machine stands still is no
		// reason to lose it.
		Namespace: "ns", Name: "l", Identity: "loser", LeaseDuration: 61 * time.Second, MissedRenewals: 59,
		Margin: time.Second,
	}
	blocked := os.Getenv(loserEnv) == "blocked"
	if blocked { // the end of the term ends it
		config.Logger, config.LeaseDuration, config.MissedRenewals = zap.Must(zap.NewProduction()), 3*time.Second, 1
	}
	elector, err := leaderelection.New(client, config)
	if err != nil {
		panic(err)
	}
	_ = elector.Run(context.Background(), func(context.Context) error {
		_ = client.CoordinationV1().Leases("ns").Delete(context.Background(), "l", metav1.DeleteOptions{})
		if blocked {
			_, _ = os.Stderr.Write(make([]byte, 1<<20)) // more than the pipe holds: blocks for ever
		}
		select {} // deaf to its context
	})
}

// withinEnv is the environment variable with how long the daemon may take from the loss to the release.
const withinEnv = "BELLWETHER_TEST_WITHIN"

// releaseLate is a daemon that releases after its term was lost, and goes on. It prints a line when it has
// released.
func releaseLate() {
	within, err := time.ParseDuration(os.Getenv(withinEnv))
	if err != nil {
		panic(err)
	}
	margin := 2 * within // the release has half of it
	client := fake.NewClientset()
	lost := make(chan struct{})
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "l", LeaseDuration: 2*time.Second + margin, MissedRenewals: 1,
		KernelDeadline: true,
		Margin:         margin,
		OnLost:         func(error) { close(lost) },
	})
	if err != nil {
		panic(err)
	}
	if _, err := elector.TryAcquire(context.Background()); err != nil {
		panic(err)
	}
	<-lost
	if err := elector.Release(context.Background()); !errors.Is(err, leaderelection.ErrNotLeader) {
		panic(err)
	}
	fmt.Println("released")
	<-time.After(within + 500*time.Millisecond)
	os.Exit(0)
}

func loser(t *testing.T, logs string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	// or a daemon that does not exit would outlive the test
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), loserEnv+"="+logs)
	return c
}

func TestLossEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := loser(t, "stderr")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	err := c.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, leaderelection.ExitCodeNotLeader, exit.ExitCode())
	assert.Equal(t, 75, leaderelection.ExitCodeNotLeader)
	for _, part := range []string{
		`lease ns/l lost by "loser"`, "the Lease was deleted (no holder is known; last renewed at ",
	} {
		assert.Contains(t, stderr.String(), part)
	}
	assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
}

func TestBlockedLogDoesNotKeepTheProcessAlive(t *testing.T) {
	t.Parallel()
	c := loser(t, "blocked")
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }() // never read
	c.Stderr = write
	require.NoError(t, c.Start())
	require.NoError(t, write.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, c.Wait(), &exit)
	assert.Equal(t, leaderelection.ExitCodeNotLeader, exit.ExitCode())
}
