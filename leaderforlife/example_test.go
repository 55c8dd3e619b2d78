package leaderforlife_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// In a Pod only the name of the lock is needed.
func ExampleBecome_inAPod() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := leader.Become(ctx, "my-daemon"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// ... work
}

// Against a fake clientset, as in a unit test of a daemon.
func ExampleBecome() {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name,
			UID: types.UID("uid-" + name),
		}}
	}
	client := fake.NewClientset(pod("a"), pod("b"))
	as := func(name string) []leader.Option {
		return []leader.Option{leader.WithClient(client), leader.WithNamespace("default"), leader.WithPodName(name)}
	}

	fmt.Println("a:", leader.Become(context.Background(), "my-daemon", as("a")...))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := leader.Become(ctx, "my-daemon", as("b")...)
	fmt.Println("b:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// a: <nil>
	// b: true
}
