package leaderforlife_test

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// boundTo makes the API server say that the process' token is bound to a Pod.
func (p *replica) boundTo(name, uid string) {
	p.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !isA(r, "selfsubjectreviews", "create") {
			return nil, nil
		}
		return review(r, name, uid), nil
	})
}

func TestPodIsThatOfTheToken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := w.pod("a")
		a := w.process(pod)
		a.boundTo("a", string(pod.UID))
		a.start(w, leader.WithPodName(""))
		require.Equal(t, []string{"a"}, w.leaders())
	})
}

// A process that has outlived its Pod, as on a lost node, must not take the StatefulSet's next Pod
// for its own.
func TestPodOfTheNameIsNotThatOfTheToken(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := w.pod("a")
		a := w.process(pod)
		a.boundTo("a", "b0b0b0b0-0000-4000-8000-000000000000")
		a.start(w)
		err := a.returned()
		require.ErrorIs(t, err, leader.ErrPodGone)
		assert.ErrorContains(t, err, "Pod ns/a has UID "+string(pod.UID)+", but the credentials of this process are "+
			"bound to Pod a with UID b0b0b0b0-0000-4000-8000-000000000000")
		assert.Nil(t, w.lock())
	})
}

func TestNameOfThePod(t *testing.T) {
	t.Run("environment", func(t *testing.T) {
		t.Setenv("POD_NAME", "a")
		inWorld(t, func(t *testing.T, w *world) {
			w.start(w.pod("a"), leader.WithPodName(""))
			require.Equal(t, []string{"a"}, w.leaders())
		})
	})
	t.Run("hostname", func(t *testing.T) {
		t.Setenv("POD_NAME", "")
		host, err := os.Hostname()
		require.NoError(t, err)
		inWorld(t, func(t *testing.T, w *world) {
			w.start(w.pod(host), leader.WithPodName(""))
			require.Equal(t, []string{host}, w.leaders())
		})
	})
	t.Run("no such Pod", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.start(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
			err := a.returned()
			require.ErrorIs(t, err, leader.ErrPodGone)
			assert.ErrorContains(t, err, "there is no Pod ns/x; if that is not its name, set it by WithPodName or "+
				"the environment variable POD_NAME")
		})
	})
}

// A failed identity request is retried, not ignored.
func TestReviewThatFailsIsAskedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		a.boundTo("a", "b0b0b0b0-0000-4000-8000-000000000000")
		failures := 3
		a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "selfsubjectreviews", "create") || failures == 0 {
				return nil, nil
			}
			failures--
			if failures == 1 {
				return nil, errors.New("connection reset by peer")
			}
			return answer(r, apierrors.NewTimeoutError("slow", 0)), nil
		})
		a.start(w)
		start := time.Now()
		require.ErrorIs(t, a.returned(), leader.ErrPodGone)
		assert.NotZero(t, time.Since(start))
	})
}
