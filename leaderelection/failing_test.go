package leaderelection_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// unauthorized refuses every request as an API server does that does not accept the credentials.
func unauthorized(string) error { return apierrors.NewUnauthorized("Unauthorized") }

// failures returns what was logged of failing requests since the last call: for how long, and the error.
func failures(r *replica) (all []string) {
	for _, line := range r.logs.TakeAll() {
		if fields := line.ContextMap(); line.Message == "request failed, retrying" {
			all = append(all, fmt.Sprintf("%v: %v", fields["for"], fields["error"]))
		}
	}
	return all
}

func TestACandidateThatCannotReachTheAPIServerKeepsSayingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		r.set(&r.refuse, down)
		r.start(t)
		time.Sleep(9 * time.Minute)
		require.Len(t, failures(r), 2, "get and watch")
		for range 6 {
			time.Sleep(10 * time.Minute)
			said := failures(r)
			require.Len(t, said, 2, "again every 10 minutes")
			assert.Contains(t, said[0], "the API server is down")
		}
		r.set(&r.refuse, nil)
		time.Sleep(interval3)
		synctest.Wait()
		assert.Equal(t, 2, r.logs.FilterMessage("request succeeds again").Len())
		assert.True(t, r.IsLeader())
		require.NoError(t, r.stop())
	})
}

// The first reason is said, and the later one too.
func TestACandidateInADeletedNamespaceSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		refuse := func(err error) {
			r.set(&r.refuse, func(verb string) error {
				if verb == "create" {
					return err
				}
				return nil
			})
		}
		refuse(apierrors.NewForbidden(leases.GroupResource(), "l",
			errors.New("unable to create new content in namespace ns because it is being terminated")))
		r.start(t)
		time.Sleep(time.Minute)
		said := failures(r)
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "being terminated")
		refuse(apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"))
		time.Sleep(time.Minute)
		said = failures(r)
		require.Len(t, said, 1)
		assert.Contains(t, said[0], `namespaces "ns" not found`)
		require.NoError(t, r.stop())
	})
}

func TestExpiredCredentialsEndACandidateAsAMissingRightDoes(t *testing.T) {
	t.Run("stated by the API server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t, newAPI(), "a", nil)
			r.set(&r.refuse, unauthorized)
			r.start(t)
			time.Sleep(duration - time.Second)
			synctest.Wait()
			assert.Empty(t, r.result, "an API server that starts may not know them yet")
			time.Sleep(time.Second + interval3)
			select {
			case err := <-r.result:
				assert.ErrorContains(t, err, "leaderelection: get Lease ns/l: the API server does not accept the "+
					"credentials of this process: Unauthorized")
				assert.True(t, apierrors.IsUnauthorized(err))
			default:
				require.Fail(t, "Run goes on")
			}
		})
	})
	t.Run("not if they are accepted in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t, newAPI(), "a", nil)
			r.set(&r.refuse, unauthorized)
			r.start(t)
			time.Sleep(duration - time.Second)
			r.set(&r.refuse, nil)
			time.Sleep(interval3)
			synctest.Wait()
			assert.True(t, r.IsLeader())
			require.NoError(t, r.stop())
		})
	})
	t.Run("not by the page of a proxy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReplica(t, newAPI(), "a", nil)
			r.set(&r.refuse, func(verb string) error {
				return apierrors.NewGenericServerResponse(http.StatusUnauthorized, verb, leases.GroupResource(), "l",
					"log in here", 0, true)
			})
			r.start(t)
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Empty(t, r.result)
			require.NoError(t, r.stop())
		})
	})
}

// failing collects the calls of OnFailing.
type failing struct {
	mu     sync.Mutex
	lasted []time.Duration
	errs   []error
}

func (f *failing) on(lasted time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lasted, f.errs = append(f.lasted, lasted), append(f.errs, err)
}

// calls returns the arguments of all calls up to now.
func (f *failing) calls() (lasted []time.Duration, errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lasted), slices.Clone(f.errs)
}

func TestCheckFailsWhenACandidatesRequestsHaveFailedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{}
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			c.MaxFailing, c.Hooks.OnFailing = 10*time.Minute, f.on
		})
		r.set(&r.refuse, down)
		r.start(t)
		time.Sleep(10*time.Minute - time.Millisecond)
		synctest.Wait()
		require.NoError(t, r.Check(nil))
		time.Sleep(time.Millisecond)
		assert.EqualError(t, r.Check(nil), "leaderelection: lease ns/l: requests have failed for 10m0s: get "+
			"Lease ns/l: the API server is down")
		lasted, errs := f.calls()
		require.NotEmpty(t, lasted)
		assert.Zero(t, lasted[0])
		assert.InDelta(t, 10*time.Minute, lasted[len(lasted)-1], float64(interval3))
		assert.ErrorContains(t, errs[len(errs)-1], "the API server is down")
		r.set(&r.refuse, nil)
		time.Sleep(interval3)
		synctest.Wait()
		assert.NoError(t, r.Check(nil))
		lasted, errs = f.calls()
		assert.Zero(t, lasted[len(lasted)-1])
		assert.NoError(t, errs[len(errs)-1])
		require.NoError(t, r.stop())
	})
}

// Reads succeed, but the candidate cannot become the leader.
func TestCheckFailsWhenTheLeaseCannotBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) { c.MaxFailing = time.Minute })
		r.set(&r.refuse, func(verb string) error {
			if verb == "create" {
				return apierrors.NewNotFound(corev1.Resource("namespaces"), "ns")
			}
			return nil
		})
		r.start(t)
		time.Sleep(time.Minute + interval3)
		assert.ErrorContains(t, r.Check(nil), `namespaces "ns" not found`)
		require.NoError(t, r.stop())
		assert.NoError(t, r.Check(nil), "Run has returned")
	})
}

func TestRequestsOfACandidateThatFollowsDoNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := newAPI(), &failing{}
		limited := func(c *leaderelection.Config) { c.MaxFailing, c.Hooks.OnFailing = duration, f.on }
		leader, candidate := newReplica(t, a, "a", limited), newReplica(t, a, "b", limited)
		leader.start(t)
		candidate.start(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.NoError(t, leader.Check(nil))
		assert.NoError(t, candidate.Check(nil))
		_, errs := f.calls()
		assert.Empty(t, errs)
		leader.set(&leader.refuse, down)
		time.Sleep(2*interval3 + interval3/2)
		_, errs = f.calls()
		require.NotEmpty(t, errs, "a leader that cannot renew")
		leader.set(&leader.refuse, nil)
		time.Sleep(interval3)
		synctest.Wait()
		_, errs = f.calls()
		assert.NoError(t, errs[len(errs)-1])
		require.NoError(t, candidate.stop())
		require.NoError(t, leader.stop())
	})
}

func TestMaxFailingIsAtLeastALeaseDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                          "",
		duration:                   "",
		duration - time.Nanosecond: "must be 0 or at least LeaseDuration, 15s (got 14.999999999s)",
		-time.Second:               "must be 0 or at least LeaseDuration, 15s (got -1s)",
	} {
		_, err := leaderelection.New(newAPI().client(), leaderelection.Config{
			Namespace: "ns", Name: "l", MaxFailing: d,
		})
		if want == "" {
			assert.NoError(t, err, d)
		} else {
			assert.EqualError(t, err, "leaderelection: MaxFailing: "+want)
		}
	}
}
