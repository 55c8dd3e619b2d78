package leaderforlife_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

func createLease(t *testing.T, w *world) error {
	_, err := w.client.CoordinationV1().Leases("ns").Create(t.Context(),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lockName}}, metav1.CreateOptions{})
	return err
}

// The API server carries out the request, but its answer is lost.
func TestLostAnswers(t *testing.T) {
	for _, lost := range []struct{ resource, verb string }{
		{"configmaps", "create"},
		{"configmaps", "delete"},
		{"pods", "patch"},
	} {
		t.Run(lost.verb, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				first := w.start(w.pod("a"))
				require.Equal(t, []string{"a"}, w.leaders())
				first.exit()
				w.setStatus("a", over(corev1.PodSucceeded, "")) // so that the successor deletes, creates and patches
				b := w.process(w.pod("b"))
				done := 0
				b.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
					if !isA(r, lost.resource, lost.verb) {
						return nil, nil
					}
					if done++; done > 1 {
						return nil, nil
					}
					if response, err := next.RoundTrip(r); err == nil {
						_ = response.Body.Close()
					}
					return nil, errors.New("connection reset by peer")
				})
				b.start(w)
				time.Sleep(10 * time.Second)
				require.Equal(t, []string{"b"}, w.leaders())
				assert.GreaterOrEqual(t, done, 1)
				lock := w.lock()
				assert.Equal(t, b.pod.UID, lock.OwnerReferences[0].UID)
				assert.Equal(t, string(lock.UID), w.getPod("b").Labels[labelKey])
			})
		})
	}
}

// A late deletion must not delete the lock of a successor.
func TestLateDeletionSparesTheSuccessorsLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.process(w.pod("b"))
		late := b.hold(w, "configmaps", "delete")
		b.start(w)
		synctest.Wait()
		first.exit()
		w.setStatus("a", over(corev1.PodFailed, "Evicted"))
		synctest.Wait()
		require.True(t, late.isHeld())
		w.start(w.pod("c"))
		require.Equal(t, []string{"c"}, w.leaders())
		lock := w.lock()
		late.send()
		time.Sleep(time.Minute)
		assert.Equal(t, lock, w.lock())
		assert.Equal(t, []string{"c"}, w.leaders())
	})
}

// A candidate whose Pod still has the label of an earlier process removes it. If that request is
// late, the Pod may have come to lead.
func TestLateRemovalOfTheLabelDoesNotDisownALeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pod("a")
		w.update("a", func(p *corev1.Pod) { p.Labels = map[string]string{labelKey: "an-earlier-lock"} })
		a := w.process(w.getPod("a"))
		late := a.hold(w, "pods", "patch")
		a.start(w)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.leaders())
		require.True(t, late.isHeld())
		late.send()
		assert.Equal(t, string(w.lock().UID), w.getPod("a").Labels[labelKey])
	})
}

// A living Pod with a stray label does not make others wait for ever.
func TestCandidateGivesUpALabelThatIsNotItsOwn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		leading := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		w.start(w.pod("b"))
		synctest.Wait()
		w.update("b", func(p *corev1.Pod) { p.Labels = map[string]string{labelKey: "late"} })
		w.start(w.pod("c"))
		synctest.Wait()
		leading.exit()
		w.deletePod("a")
		time.Sleep(time.Second)
		assert.Len(t, w.leaders(), 1)
	})
}

func TestErrorsBackOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		var tries atomic.Int32
		var mended atomic.Bool
		a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !mended.Load() && isA(r, "configmaps", "get") {
				tries.Add(1)
				return answer(r, apierrors.NewInternalError(errors.New("etcd has no leader"))), nil
			}
			return nil, nil
		})
		a.start(w)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Greater(t, tries.Load(), int32(50), "it does not give up")
		assert.Less(t, tries.Load(), int32(150), "nor spin")
		assert.Len(t, a.logs.FilterMessageSnippet("retrying").All(), 1, "said once")
		mended.Store(true)
		time.Sleep(16 * time.Second) // the longest pause, and the request
		assert.Equal(t, []string{"a"}, w.leaders())
	})
}

func TestEndOfTheContextIsHeededAtOnce(t *testing.T) {
	for name, begin := range map[string]func(w *world, p *replica){
		"watching": func(w *world, p *replica) { p.start(w) },
		"polling": func(w *world, p *replica) {
			p.forbid("configmaps", "watch")
			p.start(w)
		},
		"in a back-off": func(w *world, p *replica) {
			p.connection.Inject(apisim.Faults{Refuse: apisim.Always})
			p.start(w)
		},
		"without an answer": func(w *world, p *replica) {
			p.connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
			p.start(w)
		},
		"beside another process": func(w *world, p *replica) {
			w.start(p.pod)
			synctest.Wait()
			p.start(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start(w.pod("a"))
				require.Equal(t, []string{"a"}, w.leaders())
				b := w.process(w.pod("b"))
				begin(w, b)
				time.Sleep(time.Minute + 3*time.Second)
				start := time.Now()
				b.cancel()
				assert.ErrorIs(t, b.returned(), context.Canceled)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

// A candidate that gives up removes the lock that it may have created. Otherwise others would wait
// for the end of its Pod.
func TestCandidateThatGivesUpCleansUp(t *testing.T) {
	for _, under := range []struct{ resource, verb string }{{"configmaps", "create"}, {"pods", "patch"}} {
		t.Run(under.verb, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.process(w.pod("a"))
				patches := 0
				a.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
					if isA(r, "pods", "patch") {
						patches++
					}
					if !isA(r, under.resource, under.verb) || under.verb == "patch" && patches != 2 {
						// the first one changes nothing
						return nil, nil
					}
					response, err := next.RoundTrip(r)
					time.Sleep(time.Second) // the answer is on its way
					return response, err
				})
				a.start(w)
				time.Sleep(time.Second / 2)
				require.NotNil(t, w.lock())
				a.cancel()
				assert.ErrorIs(t, a.returned(), context.Canceled)
				assert.Nil(t, w.lock())
				assert.Empty(t, w.getPod("a").Labels)
				w.start(w.pod("b"))
				assert.Equal(t, []string{"b"}, w.leaders())
			})
		})
	}
}

func TestGivingUpIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		hang []struct{ resource, verb string }
		took time.Duration
	}{
		"the lock is not created": {[]struct{ resource, verb string }{{"configmaps", "create"}}, 5 * time.Second},
		"the Pod is not labelled, nor is the lock deleted": {
			[]struct{ resource, verb string }{{"pods", "patch"}, {"configmaps", "delete"}}, 7 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, created := w.process(w.pod("a")), false
				a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
					created = created || isA(r, "configmaps", "create")
					for _, of := range c.hang {
						if created && isA(r, of.resource, of.verb) {
							a.connection.Inject(apisim.Faults{LoseRequest: func(r *http.Request) bool {
								return len(c.hang) == 1 || isA(r, of.resource, of.verb)
							}})
						}
					}
					return nil, nil
				})
				a.start(w)
				time.Sleep(time.Second)
				start := time.Now()
				a.cancel()
				assert.ErrorIs(t, a.returned(), context.Canceled)
				assert.Equal(t, c.took, time.Since(start))
			})
		})
	}
}

func TestIdleCandidateSendsNoRequests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, createNode(t, w))
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.start(w.pod("b"), leader.WithNodeCheck())
		synctest.Wait()
		settled := w.served()
		for range 9 {
			time.Sleep(time.Minute)
			w.update("a", func(p *corev1.Pod) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, "at", time.Now().String())
			})
		}
		synctest.Wait()
		assert.Empty(t, w.requests(b, settled))
		assert.Empty(t, w.requests(a, settled), "nor does the leader")
		time.Sleep(time.Hour)
		assert.Len(t, w.requests(b, settled), 2*3*(1+4),
			"every 30 minutes it opens each of three watches again, and reads")
	})
}

// The connection of a watch dies silently.
func TestSilentWatchIsNotWaitedForForEver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.start(w.pod("b"))
		synctest.Wait()
		b.connection.Inject(apisim.Faults{Silent: true})
		a.exit()
		w.deletePod("a")
		time.Sleep(31 * time.Minute)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

func TestWatchThatBreaksIsOpenedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.start(w.pod("b"))
		synctest.Wait()
		before := w.served()
		for range 100 {
			w.server.Restart(3) // begins in the past
			time.Sleep(time.Second)
		}
		w.server.Restart(0)
		assert.Less(t, len(w.requests(b, before)), 300, "it does not spin")
		time.Sleep(time.Minute)
		a.exit()
		w.deletePod("a")
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

func TestWithoutWatchVerb(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.process(w.pod("b"))
		b.forbid("configmaps", "watch")
		b.forbid("pods", "watch")
		b.start(w, leader.WithPollInterval(2*time.Second))
		time.Sleep(time.Minute)
		assert.Less(t, len(w.requests(b, 0)), 200)
		for _, what := range []string{"configmaps", "pods"} {
			assert.Len(t, b.logs.FilterMessageSnippet("polling instead of watching "+what).All(), 1, "said once")
		}
		a.exit()
		w.deletePod("a")
		time.Sleep(2200 * time.Millisecond)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

// After a candidate has given up and removed its lock, another one that has seen the lock does not
// wait for the end of that Pod.
func TestLockThatWasGivenUpIsForgotten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		a.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "configmaps", "create") {
				return nil, nil
			}
			response, err := next.RoundTrip(r)
			time.Sleep(time.Second) // the answer is on its way
			return response, err
		})
		a.start(w)
		time.Sleep(time.Second / 2)
		b := w.start(w.pod("b"))
		synctest.Wait()
		require.Contains(t, b.why(), "a: its Pod runs")
		a.cancel()
		require.ErrorIs(t, a.returned(), context.Canceled)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

// Both preconditions are needed: a restored cluster repeats versions, and a UID does not change
// with its object.
func TestWritesCarryTheirPreconditions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		lock := w.lock()
		first.exit()
		w.setStatus("a", over(corev1.PodSucceeded, ""))
		var deletions, patches atomic.Int32
		b := w.process(w.pod("b"))
		b.connection.PreferJSON()
		b.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodDelete && r.Method != http.MethodPatch {
				return nil, nil
			}
			body, err := r.GetBody()
			assert.NoError(t, err)
			content, err := io.ReadAll(body)
			assert.NoError(t, err)
			var sent struct {
				Preconditions metav1.Preconditions
				Metadata      metav1.ObjectMeta
			}
			assert.NoError(t, json.Unmarshal(content, &sent))
			if r.Method == http.MethodDelete {
				deletions.Add(1)
				assert.Equal(t, metav1.Preconditions{UID: &lock.UID, ResourceVersion: &lock.ResourceVersion},
					sent.Preconditions)
				return nil, nil
			}
			patches.Add(1)
			assert.Equal(t, b.pod.UID, sent.Metadata.UID)
			assert.NotEmpty(t, sent.Metadata.ResourceVersion)
			return nil, nil
		})
		b.start(w)
		require.Equal(t, []string{"b"}, w.leaders())
		assert.Equal(t, int32(1), deletions.Load())
		assert.Equal(t, int32(2), patches.Load(), "one asks whether it may")
	})
}

// A lock created after its candidate gave up would make the others wait for the end of that Pod. So
// the candidate waits for a write in flight.
func TestLockThatIsMadeWhileItsCandidateGivesUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		a.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "configmaps", "create") {
				return nil, nil
			}
			late := r.Clone(context.WithoutCancel(r.Context()))
			answers := make(chan *http.Response, 1)
			go func() {
				time.Sleep(time.Second) // on its way
				answer, err := next.RoundTrip(late)
				assert.NoError(t, err)
				answers <- answer
			}()
			select {
			case answer := <-answers:
				return answer, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		a.start(w)
		time.Sleep(time.Second / 2)
		require.Nil(t, w.lock())
		a.cancel()
		require.ErrorIs(t, a.returned(), context.Canceled)
		time.Sleep(time.Minute)
		assert.Nil(t, w.lock())
	})
}

// A deletion between a candidate's reads and its watches shows in neither.
func TestWhatHappensBeforeTheWatchesStandIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.process(w.pod("b"))
		var once sync.Once
		b.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if isA(r, "pods", "watch") || isA(r, "configmaps", "watch") {
				once.Do(func() {
					a.exit()
					assert.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}))
					w.server.Collect()
				})
			}
			return nil, nil
		})
		b.start(w)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

// Other labels must be read after a Pod's own label is known to be written. Here it arrives late,
// when another leads already.
func TestLateLabelDoesNotMakeTwoLeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		var once sync.Once
		var late *held
		a.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "pods", "list") || !late.isHeld() {
				return nil, nil
			}
			response, err := next.RoundTrip(r)
			once.Do(func() {
				assert.NoError(t,
					w.client.CoreV1().ConfigMaps("ns").Delete(t.Context(), lockName, metav1.DeleteOptions{}))
				w.start(w.pod("b"))
				time.Sleep(5 * time.Second)
				late.send()
			})
			return response, err
		})
		var probe sync.Once
		late = a.hold(w, "pods", "patch", func() (skip bool) {
			probe.Do(func() { skip = true }) // which changes nothing
			return skip
		})
		a.start(w)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

func TestConnectionsThatAreResetAreSaidOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		var asked atomic.Int32
		a.filter(func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, reset(asked.Add(1)) })
		a.start(w)
		time.Sleep(9 * time.Minute)
		assert.Greater(t, asked.Load(), int32(30))
		said := func() int { return a.logs.FilterMessage("request failed, retrying").Len() }
		assert.Equal(t, 1, said())
		time.Sleep(time.Hour)
		assert.Equal(t, 7, said(), "and again every 10 minutes")
	})
}

func TestRequestWithoutAnAnswerIsGivenUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		a.connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
		a.start(w)
		time.Sleep(time.Minute)
		a.connection.Inject(apisim.Faults{})
		time.Sleep(30 * time.Second)
		assert.Equal(t, []string{"a"}, w.leaders())
	})
}

// A watch that is never answered must not keep a candidate from reading.
func TestWatchWithoutAnAnswerIsGivenUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.process(w.pod("b"))
		b.connection.Inject(apisim.Faults{LoseRequest: func(r *http.Request) bool {
			return isA(r, "pods", "watch") || isA(r, "configmaps", "watch")
		}})
		b.start(w)
		time.Sleep(time.Second)
		a.exit()
		w.deletePod("a")
		time.Sleep(30 * time.Second)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

func TestLabelThatGoesIsNews(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pod("a")
		w.update("a", func(p *corev1.Pod) { p.Labels = map[string]string{labelKey: "earlier"} })
		w.start(w.pod("b"))
		time.Sleep(time.Minute)
		require.Empty(t, w.leaders())
		w.update("a", func(p *corev1.Pod) { p.Labels = nil })
		start := time.Now()
		require.Equal(t, []string{"b"}, w.leaders())
		assert.Zero(t, time.Since(start))
	})
}

// A candidate must not race with a webhook that removes the label.
func TestRequestsThatChangeNothingBackOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "pods", "patch") {
				return nil, nil
			}
			return respond(r, http.StatusOK, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}), nil
		})
		a.start(w)
		time.Sleep(10 * time.Minute)
		assert.Empty(t, w.leaders())
		assert.Less(t, len(w.requests(a, 0)), 500)
		assert.Len(t, a.logs.FilterMessageSnippet("retrying").All(), 1)
	})
}

// A candidate reads the lock before it lists the labelled Pods. In the opposite order it could find
// its own lock, created meanwhile by a late request, and miss the leader in between. Its own label
// would prevent that, but here it may not set one.
func TestLockIsReadBeforeTheLabelledPods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.process(w.pod("b"))
		b.forbid("pods", "patch")
		var once sync.Once
		late := b.hold(w, "configmaps", "create")
		b.filter(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if !isA(r, "pods", "list") || !late.isHeld() {
				return nil, nil
			}
			response, err := next.RoundTrip(r)
			once.Do(func() { // the list is on its way while another Pod comes to lead, and is deleted in the foreground
				w.start(w.pod("a", kubelet))
				time.Sleep(5 * time.Second)
				assert.NoError(t, w.client.CoreV1().Pods("ns").
					Delete(t.Context(), "a",
						metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
				w.server.Collect()
				late.send()
			})
			return response, err
		})
		b.start(w)
		time.Sleep(time.Minute)
		require.Equal(t, b.pod.UID, w.lock().OwnerReferences[0].UID, "the late request has made the lock")
		assert.Equal(t, []string{"a"}, w.leaders())
		w.letGo("a")
		synctest.Wait()
		assert.True(t, b.leads(), "at once, when the leader has ended")
	})
}

func TestExpiredCredentialsEndACandidate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a"))
		var calls atomic.Int32
		a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			return answer(r, apierrors.NewUnauthorized("Unauthorized")), nil
		})
		a.start(w, leader.WithHooks(leader.Hooks{OnFailing: func(time.Duration, error) { calls.Add(1) }}))
		time.Sleep(14 * time.Second)
		synctest.Wait()
		require.Empty(t, a.result, "an API server that starts may not know them yet")
		assert.Positive(t, calls.Load())
		time.Sleep(20 * time.Second)
		synctest.Wait()
		select {
		case err := <-a.result:
			assert.True(t, apierrors.IsUnauthorized(err), "%v", err)
		default:
			require.Fail(t, "Become goes on")
		}
	})
}

// Missing credentials are no missing right: a candidate that did without one could lead beside another.
func TestExpiredCredentialsDoNotWeakenTheGuarantee(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a", kubelet))
		require.Equal(t, []string{"a"}, w.leaders())
		w.deleteForeground("a")
		b := w.process(w.pod("b"))
		var rejected atomic.Bool
		rejected.Store(true)
		b.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if rejected.Load() && (isA(r, "pods", "list") || isA(r, "pods", "patch")) {
				return answer(r, apierrors.NewUnauthorized("Unauthorized")), nil
			}
			return nil, nil
		})
		b.start(w)
		time.Sleep(10 * time.Second)
		rejected.Store(false)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a"}, w.leaders())
		assert.Empty(t, b.logs.FilterMessageSnippet("without the verb").All())
	})
}
