package fencejobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
)

const operation = "fence-0123456789-1-1"

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newCluster(t)) })
}

func TestReadsAndSwitches(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		j := c.new()
		power, err := j.Power(t.Context(), target())
		require.NoError(t, err)
		assert.Equal(t, agent.PowerOn, power)
		require.NoError(t, j.Switch(t.Context(), target(), off(operation)))
		assert.False(t, c.rack.On(victim))
		assert.True(t, ended(&c.jobs()[0]), "until then it might make another pod")
		power, err = j.Power(t.Context(), target())
		require.NoError(t, err)
		assert.Equal(t, agent.PowerOff, power)
		require.NoError(t,
			j.Switch(t.Context(), target(), agent.Command{ID: "fence-0123456789-1-2", Action: agent.ActionOn}))
		assert.True(t, c.rack.On(victim))

		jobs := c.jobs()
		require.Len(t, jobs, 2, "those of readings are gone")
		assert.Equal(t, operation, jobs[0].Name)
		assert.Equal(t, "fence-0123456789-1-2", jobs[1].Name)
	})
}

func TestMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		j := c.new()
		m, err := j.Metadata(t.Context(), "fence_rack")
		require.NoError(t, err)
		want, _ := rack{}.Metadata(t.Context(), "fence_rack")
		want.Parameters[0].ShortDesc = ""
		assert.Equal(t, want, m)
		_, err = j.Metadata(t.Context(), "fence_none")
		require.ErrorIs(t, err, fs.ErrNotExist)
		c.node = ""
		again, err := j.Metadata(t.Context(), "fence_rack")
		require.NoError(t, err)
		assert.Equal(t, m, again)
		_, err = j.Metadata(t.Context(), "fence_none")
		require.ErrorIs(t, err, fs.ErrNotExist, "that is known, too")
		pause(t.Context(), metadataLasts)
		again, err = j.Metadata(t.Context(), "fence_rack")
		require.NoError(t, err, "no pod can be had, and images do not change that often")
		assert.Equal(t, m, again)
		_, err = j.Metadata(t.Context(), "fence_none")
		require.Error(t, err)
		assert.NotErrorIs(t, err, fs.ErrNotExist, "it is not known any more")
		assert.Empty(t, c.jobs())
	})
}

// However often a command is asked for, by whomever, and whenever: one Job, and one command.
func TestOneCommandOfOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { assert.NoError(t, c.new().Switch(t.Context(), target(), off(operation))) })
		}
		all.Wait()
		pause(t.Context(), time.Minute)
		require.NoError(t, c.new().Switch(t.Context(), target(), off(operation)), "its answer is still there")
		assert.Equal(t, 1, c.offs())
		assert.Len(t, c.jobs(), 1)
		assert.Empty(t, c.secrets())
	})
}

// The process dies, or gets no answer, at each of its writes. Another one that goes on with the
// operation adopts what it has left.
func TestControllerThatDiesIsFollowed(t *testing.T) {
	for _, resource := range []string{"jobs", "secrets"} {
		for _, landed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, landed %v", resource, landed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, c *cluster) {
					ctx, die := context.WithCancel(t.Context())
					mutex, dead := sync.Mutex{}, false
					c.client.PrependReactor("create", resource,
						func(action k8stesting.Action) (bool, runtime.Object, error) {
							mutex.Lock()
							defer mutex.Unlock()
							if dead {
								return false, nil, nil
							}
							dead = true
							die()
							create := action.(k8stesting.CreateAction)
							if landed {
								object := create.GetObject().(metav1.Object)
								object.SetUID("uid-of-the-dead")
								assert.NoError(t,
									c.client.Tracker().Create(create.GetResource(), create.GetObject(), namespace))
							}
							return true, nil, context.Canceled
						})
					jobs := c.client.BatchV1().Jobs(namespace)
					c.starts = 4 * time.Second // after the next one has come
					died := make(chan error)
					go func() { died <- c.new().Switch(ctx, target(), off(operation)) }()
					<-ctx.Done()
					if resource == "jobs" && landed {
						_, err := jobs.Get(t.Context(), operation, metav1.GetOptions{})
						require.NoError(t, err)
					}
					err := c.new().Switch(t.Context(), target(), off(operation))
					require.Error(t, <-died)
					if err == nil {
						assert.Equal(t, 1, c.offs())
					}
					pause(t.Context(), time.Hour)
					assert.LessOrEqual(t, c.offs(), 1)
					assert.Len(t, c.jobs(), 1)
				})
			})
		}
	}
}

// Who adopts a Job that was told nothing yet tells it in the time of who has made it.
func TestAdoptionDoesNotLengthenTheWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		j := c.new()
		w, err := open(time.Now(), 30*time.Second, 30*time.Second, j.config)
		require.NoError(t, err)
		job, err := newJob(newRequest(operation, switchOff, target(), w), operation+"-0123456789", j.config)
		require.NoError(t, err)
		_, err = c.client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
		pause(t.Context(), 7*time.Second)
		require.NoError(t, j.Switch(t.Context(), target(), off(operation)))
		require.Len(t, c.told, 1)
		r, err := readRequest(c.told[0].Data[requestKey])
		require.NoError(t, err)
		assert.Equal(t, w, r.Window)
		assert.Equal(t, 1, c.offs())
	})
}

// A Job that was given up is over for the control plane, too: its pod is ended, wherever it is.
func TestGivenUpIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.node = ""
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(5*time.Second, cancel).Stop()
		require.Error(t, c.new().Switch(ctx, target(), off(operation)))
		jobs := c.jobs()
		require.Len(t, jobs, 1)
		assert.Equal(t, int64(1), *jobs[0].Spec.ActiveDeadlineSeconds)
		assert.True(t, ended(&jobs[0]))
	})
}

// The Job was deleted, and somebody has made another one of its name: that one's pods are none of
// ours.
func TestAnotherJobOfTheSameName(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.starts = -1
		jobs := c.client.BatchV1().Jobs(namespace)
		time.AfterFunc(3*time.Second, func() {
			job, err := jobs.Get(t.Context(), operation, metav1.GetOptions{})
			assert.NoError(t, err)
			assert.NoError(t, jobs.Delete(t.Context(), operation, metav1.DeleteOptions{}))
			c.deletePods(t.Context(), job.UID)
			c.mu.Lock()
			c.starts = time.Second
			c.mu.Unlock()
			_, err = jobs.Create(t.Context(), job, metav1.CreateOptions{})
			assert.NoError(t, err)
		})
		require.ErrorContains(t, c.new().Switch(t.Context(), target(), off(operation)), "given up")
	})
}

// The API server has made the Job, and its answer was lost.
func TestLostAnswerToACreation(t *testing.T) {
	for _, resource := range []string{"jobs", "secrets"} {
		t.Run(resource, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				lost := false
				c.client.PrependReactor("create", resource,
					func(action k8stesting.Action) (bool, runtime.Object, error) {
						if lost {
							return false, nil, nil
						}
						lost = true
						create := action.(k8stesting.CreateAction)
						create.GetObject().(metav1.Object).SetUID("uid-1")
						assert.NoError(t,
							c.client.Tracker().Create(create.GetResource(), create.GetObject(), namespace))
						return true, nil, apierrors.NewTimeoutError("the answer is lost", 0)
					})
				require.NoError(t, c.new().Switch(t.Context(), target(), off(operation)))
				assert.Equal(t, 1, c.offs())
				assert.Len(t, c.jobs(), 1)
			})
		})
	}
}

func TestForeignJobIsNeverAdopted(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, r *request, job *batchv1.Job){
		"another node":    func(_ *testing.T, r *request, _ *batchv1.Job) { r.Node = "w3" },
		"another action":  func(_ *testing.T, r *request, _ *batchv1.Job) { r.Action = switchOn },
		"another device":  func(_ *testing.T, r *request, _ *batchv1.Job) { r.Device = "fence_rack/rack/w3" },
		"another agent":   func(_ *testing.T, r *request, _ *batchv1.Job) { r.Agent = "fence_apc" },
		"other names":     func(_ *testing.T, r *request, _ *batchv1.Job) { delete(r.Parameters, "password") },
		"not ours at all": func(_ *testing.T, _ *request, job *batchv1.Job) { job.Annotations = nil },
		"no window": func(_ *testing.T, _ *request, job *batchv1.Job) {
			delete(job.Annotations, windowAnnotation)
		},
		"window far away": func(t *testing.T, r *request, job *batchv1.Job) {
			w := r.Window
			w.Closes, w.Ends = w.Closes.Add(time.Hour), w.Ends.Add(time.Hour)
			job.Annotations[windowAnnotation] = encoded(t, w)
		},
		"another's Secret": func(_ *testing.T, _ *request, job *batchv1.Job) {
			job.Spec.Template.Spec.Volumes[0].Secret.SecretName = "somebody-elses"
		},
		"being deleted": func(_ *testing.T, _ *request, job *batchv1.Job) {
			now := metav1.Now()
			job.DeletionTimestamp, job.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.starts = -1
				w, err := open(time.Now(), 30*time.Second, 30*time.Second, c.new().config)
				require.NoError(t, err)
				r := newRequest(operation, switchOff, target(), w)
				if !strings.Contains(name, "window") {
					change(t, &r,
						&batchv1.Job{
							ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
							Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
								Volumes: []corev1.Volume{
									{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
								},
							}}},
						})
				}
				job, err := newJob(r, operation+"-0123456789", c.new().config)
				require.NoError(t, err)
				change(t, &r, job)
				before, err := c.client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
				require.NoError(t, err)
				err = c.new().Switch(t.Context(), target(), off(operation))
				require.ErrorIs(t, err, ErrForeign)
				assert.NotContains(t, err.Error(), secret)
				assert.Empty(t, c.secrets(), "it would be told the command")
				assert.Zero(t, c.offs())
				after, err := c.client.BatchV1().Jobs(namespace).Get(t.Context(), operation, metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, before.Spec, after.Spec, "it is left alone")
			})
		})
	}
}

// A pod that comes too late sends nothing, whatever has kept it: nor does its kubelet have to know
// that it was given up.
func TestNothingIsSentLate(t *testing.T) {
	for _, late := range []time.Duration{11 * time.Second, 29 * time.Second, 31 * time.Second, time.Hour} {
		t.Run(late.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.starts, c.deaf = late, true
				began := time.Now()
				err := c.new().Switch(t.Context(), target(), off(operation))
				require.Error(t, err)
				assert.LessOrEqual(t, time.Since(began), 30*time.Second)
				if late > 30*time.Second {
					assert.Equal(t, 30*time.Second, time.Since(began), "until then something might have been sent")
				}
				pause(t.Context(), 2*time.Hour)
				assert.Zero(t, c.offs())
				assert.Empty(t, c.secrets())
			})
		})
	}
}

// What starts in time is sent.
func TestSlowPodIsInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.starts = 9 * time.Second
		require.NoError(t, c.new().Switch(t.Context(), target(), off(operation)))
		assert.Equal(t, 1, c.offs())
	})
}

func TestPodThatNeverRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.node = ""
		err := c.new().Switch(t.Context(), target(), off(operation))
		require.ErrorContains(t, err, "no room anywhere")
		assert.Zero(t, c.offs())
		assert.Empty(t, c.secrets(), "nothing starts without")
		c.node = host
		require.Error(t, c.new().Switch(t.Context(), target(), off(operation)), "it was given up, and stays so")
		pause(t.Context(), time.Hour)
		assert.Zero(t, c.offs())
		require.NoError(t, c.new().Switch(t.Context(), target(), off("fence-0123456789-1-2")),
			"the next one is another")
		assert.Equal(t, 1, c.offs())
	})
}

// As long as an unseen pod may be alive, the call has not ended, also where its caller
// has lost patience: what comes after it counts from there.
func TestCallLastsAsLongAsSomethingMayBeSent(t *testing.T) {
	for name, f := range map[string]func(*cluster){
		"a kubelet that is cut off":        func(c *cluster) { c.tells, c.deaf = -1, true },
		"and whose pods stay":              func(c *cluster) { c.tells, c.deaf, c.stays = -1, true, true },
		"a pod that was deleted":           func(c *cluster) { c.starts, c.deaf = 8*time.Second, true },
		"a pod that may have got its node": func(c *cluster) { c.node = "" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				f(c)
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(5*time.Second, cancel).Stop()
				began := time.Now()
				require.Error(t, c.new().Switch(ctx, target(), off(operation)))
				assert.Equal(t, 30*time.Second, time.Since(began).Truncate(time.Second))
			})
		})
	}
}

// Between the call and the Job the process was stopped: it has no more time than it had.
func TestStoppedCallerGetsNoMoreTime(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		pause(t.Context(), 15*time.Second)
		require.ErrorIs(t, c.new().Switch(ctx, target(), off(operation)), errLate)
		assert.Empty(t, c.jobs())
	})
	inBubble(t, func(t *testing.T, c *cluster) { // while the Job was made
		require.Error(t, c.stopped("create jobs", time.Hour).Switch(t.Context(), target(), off(operation)))
		pause(t.Context(), time.Hour)
		assert.Zero(t, c.offs())
	})
}

func TestReadingsAreFresh(t *testing.T) {
	t.Run("each has a Job of its own", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			names := map[string]bool{}
			c.client.PrependReactor("create", "jobs", func(action k8stesting.Action) (bool, runtime.Object, error) {
				names[action.(k8stesting.CreateAction).GetObject().(*batchv1.Job).Name] = true
				return false, nil, nil
			})
			for range 3 {
				power, err := c.new().Power(t.Context(), target())
				require.NoError(t, err)
				require.Equal(t, agent.PowerOn, power)
			}
			assert.Len(t, names, 3)
		})
	})
	t.Run("a kubelet that tells late", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			c.tells = 10 * time.Second
			power, err := c.new().Power(t.Context(), target())
			require.ErrorContains(t, err, "too long")
			assert.Equal(t, agent.PowerUnknown, power)
		})
	})
	t.Run("a controller that was stopped for an hour", func(t *testing.T) {
		inBubble(t, func(t *testing.T, c *cluster) {
			power, err := c.stopped("list pods", time.Hour).Power(t.Context(), target())
			require.Error(t, err)
			assert.Equal(t, agent.PowerUnknown, power)
		})
	})
}

// The deadline of a caller is the time of a reading, also if it is later than Timeout.
func TestReadingHasTheTimeOfItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.rack.Break(victim, fencingtest.Fault{Slow: 40 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		power, err := c.new().Power(ctx, target())
		require.NoError(t, err)
		assert.Equal(t, agent.PowerOn, power)
		began := time.Now()
		_, err = c.new().Power(t.Context(), target())
		require.Error(t, err)
		assert.LessOrEqual(t, time.Since(began), 30*time.Second)
	})
}

// An answer that is young enough, but found when the call's time is over.
func TestAnswerAfterTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.starts = 7 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		power, err := c.stopped("list pods", 12*time.Second).Power(ctx, target())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, agent.PowerUnknown, power)
	})
}

// A pod that looks like the Job's, and is not.
func TestForeignPodIsNotBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		time.AfterFunc(200*time.Millisecond, func() {
			job := c.jobs()[0]
			answer := result{
				Version: version, Request: job.Annotations[requestAnnotation], Outcome: done,
				Power: agent.PowerOff, Began: wall(), Ended: wall(),
			}
			_, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "foreign",
					Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)},
				},
			}, metav1.CreateOptions{})
			assert.NoError(t, err)
			c.tell(t.Context(), "foreign", encoded(t, answer))
		})
		power, err := c.new().Power(t.Context(), target())
		require.NoError(t, err)
		assert.Equal(t, agent.PowerOn, power)
	})
}

// What a pod says is taken word for word, or not at all.
func TestMalformedResultsAreRefused(t *testing.T) {
	change := func(f func(*result)) func(*testing.T, result) string {
		return func(t *testing.T, r result) string {
			f(&r)
			return encoded(t, r)
		}
	}
	for name, f := range map[string]func(*testing.T, result) string{
		"nothing":        func(*testing.T, result) string { return "" },
		"no JSON":        func(*testing.T, result) string { return "off" },
		"half":           func(t *testing.T, r result) string { return encoded(t, r)[:40] },
		"more than that": func(t *testing.T, r result) string { return encoded(t, r) + "{}" },
		"unknown fields": func(t *testing.T, r result) string {
			return strings.Replace(encoded(t, r), `{`, `{"x":1,`, 1)
		},
		"too long": func(t *testing.T, r result) string {
			return encoded(t, r) + strings.Repeat(" ", maxResult)
		},
		"another version": change(func(r *result) { r.Version++ }),
		"another request": change(func(r *result) { r.Request = "x" }),
		"no outcome":      change(func(r *result) { r.Outcome = "" }),
		"no power":        change(func(r *result) { r.Power = "" }),
		"unknown power":   change(func(r *result) { r.Power = agent.PowerUnknown }),
		"other power":     change(func(r *result) { r.Power = "standby" }),
		"no times":        change(func(r *result) { r.Began, r.Ended = time.Time{}, time.Time{} }),
		"ends before":     change(func(r *result) { r.Ended = r.Began.Add(-time.Second) }),
		"before the call": change(func(r *result) { r.Began = r.Began.Add(-time.Minute) }),
		"long ago": change(func(r *result) {
			r.Began, r.Ended = r.Began.Add(-time.Hour), r.Ended.Add(-time.Hour)
		}),
		"later than now": change(func(r *result) {
			r.Began, r.Ended = r.Began.Add(time.Hour), r.Ended.Add(time.Hour)
		}),
		"it has failed":    change(func(r *result) { r.Outcome, r.Message = failed, "no route" }),
		"it was refused":   change(func(r *result) { r.Outcome, r.Message = refused, "late" }),
		"there is no such": change(func(r *result) { r.Outcome, r.Message = absent, "gone" }),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				c.rack.Set(victim, false)
				c.answer = func(r result) string { return f(t, r) }
				power, err := c.new().Power(t.Context(), target())
				require.Error(t, err)
				assert.Equal(t, agent.PowerUnknown, power)
			})
		})
	}
	inBubble(t, func(t *testing.T, c *cluster) {
		c.rack.Set(victim, false)
		c.answer = func(r result) string { return encoded(t, r) }
		power, err := c.new().Power(t.Context(), target())
		require.NoError(t, err, "the one that nothing was done to")
		assert.Equal(t, agent.PowerOff, power)
	})
}

func TestDeviceThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.rack.Break(victim, fencingtest.Fault{Unreadable: true})
		power, err := c.new().Power(t.Context(), target())
		require.ErrorContains(t, err, "no answer")
		assert.Equal(t, agent.PowerUnknown, power)
		c.rack.Break(victim, fencingtest.Fault{Fail: true})
		require.Error(t, c.new().Switch(t.Context(), target(), off(operation)))
		assert.Equal(t, 1, c.offs(), "one pod, one try")
	})
}

// Quota, rights, a namespace that is missing: the first no is believed.
func TestRefusalOfTheAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.client.PrependReactor("create", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, operation,
				errors.New("exceeded quota"))
		})
		began := time.Now()
		require.ErrorContains(t, c.new().Switch(t.Context(), target(), off(operation)), "exceeded quota")
		_, err := c.new().Power(t.Context(), target())
		require.ErrorContains(t, err, "exceeded quota")
		assert.Less(t, time.Since(began), time.Second)
	})
}

// The page of a proxy is no answer.
func TestPageOfAProxyRefusesNoJob(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		pages := 3
		c.client.PrependReactor("create", "jobs", func(k8stesting.Action) (bool, runtime.Object, error) {
			pages--
			return pages >= 0, nil, apierrors.NewGenericServerResponse(http.StatusForbidden, "post",
				schema.GroupResource{Resource: "jobs"}, "", "<html>log in first</html>", 0, true)
		})
		require.NoError(t, c.new().Switch(t.Context(), target(), off(operation)))
		assert.Equal(t, 1, c.offs())
	})
}

// The controller that uses the Jobs says what they lack, too.
func TestMissingRightsAreSaidByTheController(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		kubetest.AnswerReviews(c.client, func(of *authorizationv1.ResourceAttributes) bool {
			return of.Resource != "secrets" && of.Verb != "delete"
		})
		core, logs := observer.New(zap.WarnLevel)
		ctx, end := kube.NewRole(zap.New(core)).Begin(t.Context())
		defer end()
		jobs := c.new()
		for range 3 {
			_, err := jobs.Power(ctx, target())
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}
		require.Equal(t, 1, logs.Len())
		assert.Equal(t, `delete on resource jobs of API group "batch" in namespace `+namespace+
			`; create, delete on resource secrets of API group "" in namespace `+namespace,
			logs.All()[0].ContextMap()["grant"])
	})
}

func TestBadCommandsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		for want, call := range map[string]func() error{
			"Command.Action": func() error {
				return c.new().Switch(t.Context(), target(), agent.Command{ID: operation, Action: "reboot"})
			},
			"Command.ID": func() error { return c.new().Switch(t.Context(), target(), off("Not A Name")) },
			"52 characters": func() error {
				return c.new().Switch(t.Context(), target(), off(strings.Repeat("a", 53)))
			},
			"Command.Timeout": func() error {
				return c.new().Switch(t.Context(), target(),
					agent.Command{ID: operation, Action: agent.ActionOff, Timeout: 4 * time.Second})
			},
			"Target.Node": func() error {
				nowhere := target()
				nowhere.Node = ""
				return c.new().Switch(t.Context(), nowhere, off(operation))
			},
		} {
			require.ErrorContains(t, call(), want)
		}
		assert.Empty(t, c.jobs())
	})
}

// Only the Secret has what is secret, and it does not outlive the call.
func TestSecretsAreInTheSecretOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		core, logs := observer.New(zap.DebugLevel)
		var written []string
		c.client.PrependReactor("*", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
			if action.GetResource().Resource != "secrets" {
				written = append(written, fmt.Sprintf("%+v", action), encoded(t, action))
			}
			return false, nil, nil
		})
		j := c.new(func(c *Config) { c.Logger = zap.New(core) })
		_, err := j.Power(t.Context(), target())
		require.NoError(t, err)
		require.NoError(t, j.Switch(t.Context(), target(), off(operation)))
		c.rack.Break(victim, fencingtest.Fault{Unreadable: true})
		_, err = j.Power(t.Context(), target())
		require.Error(t, err)
		require.Len(t, c.told, 3)
		for _, told := range c.told {
			assert.Contains(t, string(told.Data[requestKey]), secret)
			assert.True(t, *told.Immutable)
			assert.Equal(t, "Job", told.OwnerReferences[0].Kind, "it goes with it")
		}
		assert.NotEmpty(t, logs.All())
		for _, said := range append(written, encoded(t, c.jobs()), fmt.Sprint(logs.All()), err.Error()) {
			assert.NotContains(t, said, secret)
			assert.NotContains(t, said, "aHVudGVyMi1vZi10aGUtYm1j", "encoded")
		}
		for _, left := range c.secrets() { // of readings: a garbage collector deletes them with their Jobs
			assert.Contains(t, left.Name, "fence-read-")
		}
	})
}
