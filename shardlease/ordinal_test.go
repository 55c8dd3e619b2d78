package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// claim claims a name, and holds its lease until the shard is stopped.
func claim(c *cluster, change func(*shardlease.Config)) *shard {
	c.Helper()
	s := claimOnly(c, change)
	if s.Lease == nil {
		c.FailNow()
	}
	return s.start(c)
}

func claimOnly(c *cluster, change func(*shardlease.Config)) *shard {
	c.Helper()
	s, config := makeShard(c, func(config *shardlease.Config) {
		config.Identity = ""
		if change != nil {
			change(config)
		}
	})
	s.client.Inject(apisim.Faults{Latency: 10 * time.Millisecond}) // so that all ask before one has written
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
	defer cancel()
	var err error
	s.Lease, err = shardlease.ClaimOrdinal(ctx, kubernetes.NewForConfigOrDie(s.client.Config()), config)
	assert.NoError(c, err)
	s.client.Inject(apisim.Faults{})
	return s
}

// claimed are shards of the names r-0, r-1, …
func claimed(c *cluster, n int) (shards []*shard) {
	c.Helper()
	for i := range n {
		s := claim(c, nil)
		require.Equal(c, fmt.Sprintf("r-%d", i), s.Identity())
		shards = append(shards, s)
	}
	return shards
}

func (c *cluster) patchLease(name, patch string) {
	c.Helper()
	_, err := c.leases().Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(c, err)
}

// TestEachPodClaimsANameOfItsOwn has several do so at once.
func TestEachPodClaimsANameOfItsOwn(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const pods = 8
		shards := make([]*shard, pods)
		var claims sync.WaitGroup
		for i := range shards {
			claims.Go(func() { shards[i] = claimOnly(c, nil) })
		}
		claims.Wait()
		var names, want []string
		for i, s := range shards {
			names, want = append(names, s.start(c).Identity()), append(want, fmt.Sprintf("r-%d", i))
		}
		slices.Sort(names)
		assert.Equal(t, want, names)
		time.Sleep(time.Minute)
		host, _ := os.Hostname()
		for _, s := range shards {
			l, err := c.leases().Get(c.Context(), s.Identity(), metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, s.Identity(), holder(l))
			assert.Equal(t, host, l.Annotations[shardrecord.PodAnnotation])
			assert.Equal(t, "30", l.Annotations[shardrecord.ReturnAnnotation], "the default")
			assert.Empty(t, s.losses())
			assert.NoError(t, s.stop())
		}
	})
}

func TestWhichNameIsClaimed(t *testing.T) {
	for _, e := range []struct {
		name   string
		happen func(c *cluster, shards []*shard) // to r-0, r-1 and r-2
		want   string
		wait   time.Duration // at most
	}{
		{"all are held", func(*cluster, []*shard) {}, "r-3", time.Second},
		{"released, and expected back", func(_ *cluster, s []*shard) { _ = s[1].stop() }, "r-1", time.Second},
		{"of two that are expected back, the one whose time is over first", func(_ *cluster, s []*shard) {
			_ = s[2].stop()
			time.Sleep(5 * time.Second)
			_ = s[0].stop()
		}, "r-2", time.Second},
		{"expected back, before one that is not any more", func(_ *cluster, s []*shard) {
			_ = s[0].stop()
			time.Sleep(time.Minute)
			_ = s[1].stop()
		}, "r-1", time.Second},
		{"not expected back any more", func(_ *cluster, s []*shard) {
			_ = s[2].stop()
			_ = s[1].stop()
			time.Sleep(time.Minute)
		}, "r-1", time.Second},
		{"dead, not released", func(_ *cluster, s []*shard) { s[1].die() }, "r-3", time.Second},
		{"dead for long, not released", func(_ *cluster, s []*shard) {
			s[1].die()
			time.Sleep(10 * time.Minute)
		}, "r-3", time.Second},
		{"emptied by somebody", func(c *cluster, s []*shard) {
			s[1].die()
			c.patchLease("r-1", `{"spec":{"holderIdentity":""}}`)
		}, "r-3", time.Second},
		{"taken by the sharder", func(c *cluster, s []*shard) {
			s[1].die()
			c.patchLease("r-1", `{"spec":{"holderIdentity":"bellwether.dev/sharder"}}`)
		}, "r-3", time.Second},
		{"deleted", func(c *cluster, s []*shard) {
			s[1].die()
			require.NoError(c, c.leases().Delete(c.Context(), "r-1", metav1.DeleteOptions{}))
		}, "r-1", time.Second},
		{
			"told to stop, and on its way", func(_ *cluster, s []*shard) { s[1].leave(10 * time.Second) }, "r-1",
			11 * time.Second,
		},
		{"told to stop, and dead", func(_ *cluster, s []*shard) {
			s[1].leave(2 * time.Minute)
			s[1].client.Sever()
		}, "r-3", 33 * time.Second},
		{
			"told to stop, and at work for too long", func(_ *cluster, s []*shard) { s[1].leave(time.Minute) }, "r-3",
			33 * time.Second,
		},
		{"none of the ring", func(c *cluster, s []*shard) {
			_ = s[1].stop()
			c.patchLease("r-1", `{"metadata":{"labels":{"ring.bellwether.dev/name":"other"}}}`)
		}, "r-3", 2 * time.Second},
	} {
		t.Run(e.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				shards := claimed(c, 3)
				e.happen(c, shards)
				begin := time.Now()
				s := claim(c, nil)
				assert.Equal(t, e.want, s.Identity())
				assert.LessOrEqual(t, time.Since(begin), e.wait)
				assert.Empty(t, s.losses())
				for _, s := range append(shards, s) {
					s.cancel()
				}
				time.Sleep(3 * time.Minute) // which some need in order to stop
			})
		})
	}
}

// leave has the shard be told to stop, which takes its work so long.
func (s *shard) leave(takes time.Duration) {
	s.note(func() { s.lasts = takes })
	s.cancel()
	synctest.Wait()
}

// TestNameOfAPodIsItsOwnAfterARestart is about a container that is restarted, also while others
// claim names.
func TestNameOfAPodIsItsOwnAfterARestart(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := func(pod string) func(*shardlease.Config) {
			return func(config *shardlease.Config) { config.PodUID = pod }
		}
		a, b := claim(c, in("pod-a")), claim(c, in("pod-b"))
		b.die()
		others := claim(c, in("pod-c"))
		assert.Equal(t, "r-2", others.Identity())
		begin := time.Now()
		again := claim(c, in("pod-b"))
		assert.Equal(t, "r-1", again.Identity())
		assert.Less(t, time.Since(begin), time.Second)
		assert.Equal(t, b.epochs(), again.epochs(), "nothing has moved")

		second := claim(c, in("pod-b")) // another container of the Pod
		assert.Equal(t, "r-3", second.Identity())
		for _, s := range []*shard{a, others, again, second} {
			assert.NoError(t, s.stop())
			assert.Empty(t, s.losses())
		}
	})
}

// TestClaimThatIsNotUsedInTimeIsLost is about a program that takes too long to call Run. The name
// is lost, and Run gets it back.
func TestClaimThatIsNotUsedInTimeIsLost(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
		var err error
		s.Lease, err = shardlease.ClaimOrdinal(c.Context(), kubernetes.NewForConfigOrDie(s.client.Config()), config)
		require.NoError(t, err)
		time.Sleep(duration - margin - time.Second)
		assert.Empty(t, s.losses())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, s.losses(), 1)
		assert.ErrorIs(t, s.losses()[0], shardlease.ErrLost)
		s.start(c)
		c.within(duration, func() bool { return len(s.epochs()) == 1 })
		assert.NoError(t, s.stop())
	})
}

// TestClaimEndsWithItsContext sends a claim's first request into an outage.
func TestClaimEndsWithItsContext(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		s.client.Sever()
		_, err := shardlease.ClaimOrdinal(ctx, kubernetes.NewForConfigOrDie(s.client.Config()), config)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		said := s.logs.FilterMessage("a name cannot be claimed yet, retrying").Len()
		assert.NotZero(t, said)
		assert.LessOrEqual(t, said, 2, "each reason once: client-go words the end of a request's time in two ways")
	})
}

// TestClaimWaitsForTheAPIServer also loses the answer to the write that takes the name.
func TestClaimWaitsForTheAPIServer(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
		way, begin := s.client.Config(), time.Now()
		created := 0
		way.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if time.Since(begin) < time.Minute {
					return nil, errors.New("no route to host")
				}
				answer, err := next.RoundTrip(r)
				if r.Method == http.MethodPost {
					if created++; created == 1 {
						return nil, errors.New("connection reset by peer")
					}
				}
				return answer, err
			})
		}
		var err error
		s.Lease, err = shardlease.ClaimOrdinal(c.Context(), kubernetes.NewForConfigOrDie(way), config)
		require.NoError(t, err)
		assert.Equal(t, "r-0", s.Identity())
		assert.Less(t, time.Since(begin), time.Minute+5*time.Second)
		s.start(c)
		assert.NoError(t, s.stop())
	})
}

// TestClaimSaysWhichRightItLacks refuses each kind of request for good.
func TestClaimSaysWhichRightItLacks(t *testing.T) {
	for method, verb := range map[string]string{http.MethodGet: "list", http.MethodPost: "create"} {
		t.Run(verb, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
				way, begin := s.client.Config(), time.Now()
				way.WrapTransport = refuse(method)
				_, err := shardlease.ClaimOrdinal(c.Context(), kubernetes.NewForConfigOrDie(way), config)
				require.ErrorContains(t, err, fmt.Sprintf("grant the verb %q on resource leases", verb))
				assert.True(t, apierrors.IsForbidden(err))
				assert.InDelta(t, duration.Seconds(), time.Since(begin).Seconds(), 3)
			})
		})
	}
}

func TestClaimSaysAllRightsThatItLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset()
		lacks := func(verb string) bool { return verb == "list" || verb == "create" }
		client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "",
				errors.New(`User "u" cannot list resource "leases"`))
		})
		kubetest.AnswerReviews(client, func(of *authorizationv1.ResourceAttributes) bool {
			return of.Resource != "leases" || !lacks(of.Verb)
		})
		core, logs := observer.New(zap.WarnLevel)
		_, err := shardlease.ClaimOrdinal(t.Context(), client,
			shardlease.Config{Namespace: "ns", Ring: "r", Logger: zap.New(core)})
		assert.True(t, apierrors.IsForbidden(err))
		lines := logs.FilterMessage("rights are missing: grant all of them").All()
		require.Len(t, lines, 1)
		assert.Equal(t, `list, create on resource leases of API group "coordination.k8s.io" in namespace ns`,
			lines[0].ContextMap()["grant"])
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refuse is the API server's answer to a user who has not got the right to requests of a method.
func refuse(method string) func(http.RoundTripper) http.RoundTripper {
	return forbid(method, `leases.coordination.k8s.io is forbidden: User \"x\" cannot do resource \"leases\"`)
}

// forbid answers requests of a method with 403 and this message.
func forbid(method, message string) func(http.RoundTripper) http.RoundTripper {
	return deny(method, http.StatusForbidden, `,"reason":"Forbidden","message":"`+message+`"`)
}

// deny has requests answered with a Status with this code and these fields.
func deny(method string, code int, fields string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != method {
				return next.RoundTrip(r)
			}
			body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d%s}`, code, fields)
			return &http.Response{
				StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	}
}

// A name that must not be made, as for a quota, does not keep a Pod from one that becomes free.
func TestANameThatIsDeniedIsNotWaitedFor(t *testing.T) {
	for name, denied := range map[string]func(http.RoundTripper) http.RoundTripper{
		"by a quota": forbid(http.MethodPost, `leases.coordination.k8s.io \"r-1\" is forbidden: exceeded quota: q`),
		"by a webhook": deny(http.MethodPost, http.StatusBadRequest,
			`,"message":"admission webhook \"w\" denied the request: no"`),
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				first := claim(c, nil)
				s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
				of := s.client.Config()
				of.WrapTransport = denied
				claimed := make(chan *shardlease.Lease, 1)
				ctx, cancel := context.WithTimeout(c.Context(), time.Hour)
				defer cancel()
				go func() {
					l, err := shardlease.ClaimOrdinal(ctx, kubernetes.NewForConfigOrDie(of), config)
					assert.NoError(c, err)
					claimed <- l
				}()
				time.Sleep(10 * time.Minute)
				assert.Empty(c, claimed)
				failures := s.logs.FilterMessageSnippet("request failed").Len()
				assert.InDelta(c, 40, failures, 5, "one line in each LeaseDuration")
				require.NoError(c, first.stop())
				released := time.Now()
				s.Lease = <-claimed
				require.NotNil(c, s.Lease)
				assert.Less(c, time.Since(released), 3*time.Second)
				assert.Equal(c, "r-0", s.Identity())
				require.NoError(c, s.start(c).stop())
			})
		})
	}
}

// r-0 must not be made, and r-1 has been free for long.
func TestAFreeNameIsFoundBehindOneThatIsDenied(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first, second := claim(c, nil), claim(c, nil)
		require.Equal(t, "r-1", second.Identity())
		require.NoError(c, first.stop())
		require.NoError(c, second.stop())
		require.NoError(c, c.leases().Delete(c.Context(), "r-0", metav1.DeleteOptions{}))
		time.Sleep(time.Hour)
		s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
		of := s.client.Config()
		of.WrapTransport = forbid(http.MethodPost, `leases.coordination.k8s.io \"r-0\" is forbidden: exceeded quota: q`)
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
		defer cancel()
		l, err := shardlease.ClaimOrdinal(ctx, kubernetes.NewForConfigOrDie(of), config)
		require.NoError(c, err)
		assert.Equal(c, "r-1", l.Identity())
	})
}

// An API server that starts refuses once, in each of two outages.
func TestRefusalsFarApartEndNoClaim(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
		of, begun := s.client.Config(), time.Now()
		refuse := forbid(http.MethodGet, `User \"u\" cannot list resource \"leases\"`)
		of.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				switch at := time.Since(begun); {
				case at < 100*time.Millisecond, 10*time.Minute < at && at < 10*time.Minute+3*time.Second:
					return refuse(next).RoundTrip(r)
				case at < 10*time.Minute:
					return nil, io.ErrUnexpectedEOF
				}
				return next.RoundTrip(r)
			})
		}
		l, err := shardlease.ClaimOrdinal(c.Context(), kubernetes.NewForConfigOrDie(of), config)
		require.NoError(c, err)
		assert.Equal(c, "r-0", l.Identity())
		assert.Greater(c, time.Since(begun), 10*time.Minute)
	})
}

func TestBadClaim(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	_, err := shardlease.ClaimOrdinal(t.Context(), nil, shardlease.Config{})
	require.ErrorContains(t, err, "client: must not be nil")
	_, err = shardlease.ClaimOrdinal(t.Context(), client, shardlease.Config{Namespace: "ns", Ring: "r", Identity: "a"})
	require.ErrorContains(t, err, `Identity: must be empty, because a name is claimed (got "a")`)
	_, err = shardlease.ClaimOrdinal(t.Context(), client, shardlease.Config{Namespace: "ns", Ring: "R"})
	require.ErrorContains(t, err, "Ring")
}

// A name fits for every replica, not only for the first ones.
func TestRingOfAClaimLeavesRoomForTheOrdinal(t *testing.T) {
	ring := strings.Repeat("r", 57)
	client := fake.NewClientset()
	_, err := shardlease.New(client, shardlease.Config{Namespace: "ns", Ring: ring, Identity: ring + "-99999"})
	require.NoError(t, err)
	claimed, err := shardlease.ClaimOrdinal(t.Context(), client, shardlease.Config{Namespace: "ns", Ring: ring})
	require.NoError(t, err)
	assert.Equal(t, ring+"-0", claimed.Identity())
	over, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, claimed.Run(over, func(context.Context) error { return nil }))

	_, err = shardlease.ClaimOrdinal(t.Context(), client, shardlease.Config{Namespace: "ns", Ring: ring + "r"})
	require.EqualError(t, err, `shardlease: Ring: must be at most 57 characters, because a name is claimed: `+
		`<ring>-<ordinal>, with up to 5 digits, fits in 63 (got "`+ring+`r")`)
}

// TestWhoIsLeavingSaysSoAtOnce looks at the Lease of a shard whose work takes longer to stop than a
// renewal.
func TestWhoIsLeavingSaysSoAtOnce(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := claim(c, nil)
		leaving := func() string {
			l, err := c.leases().Get(c.Context(), s.Identity(), metav1.GetOptions{})
			require.NoError(c, err)
			return l.Annotations[shardrecord.LeavingAnnotation]
		}
		time.Sleep(10 * time.Second)
		assert.Empty(t, leaving())
		s.leave(10 * time.Second)
		assert.Equal(t, "true", leaving())
		time.Sleep(9 * time.Second)
		assert.Equal(t, "true", leaving())
		assert.NoError(t, <-s.result)
		assert.Empty(t, leaving(), "it has left")
		assert.Equal(t, "r-0", claim(c, nil).Identity())
		assert.Empty(t, leaving())

		other := newShard(c, nil).start(c)
		other.leave(10 * time.Second)
		assert.Empty(t, c.lease().Annotations[shardrecord.LeavingAnnotation],
			"who has a name of its own is not replaced by others")
		assert.NoError(t, <-other.result)
	})
}
