package supervisor_test

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

func notifyTerm(c chan<- os.Signal) { signal.Notify(c, unix.SIGTERM) }

func newServer(t *testing.T, h http.Handler) (address string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// family is a supervisor and its child, whose leases are on a server in memory.
type family struct {
	*subprocess.Child        // the supervisor
	leader            string // the process number of the child
	client            kubernetes.Interface
	releases          *releases
}

// releases are when the Lease was released.
type releases struct {
	mu    sync.Mutex
	times []time.Time
	look  func() // called at a release, before the server answers
}

func (r *releases) at() (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.times) == 0 {
		return time.Time{}, false
	}
	return r.times[0], true
}

func (r *releases) set(look func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look = look
}

func start(t *testing.T, program string, timing timing, env ...string) family {
	t.Helper()
	f := startWith(t, program, (*subprocess.Child).Start, timing, env...)
	require.NotEmpty(t, f.leader, "it has not begun")
	return f
}

// startWith leaves it to the caller whether the leader has begun, in a term that may be brief.
func startWith(t *testing.T, program string, start func(*subprocess.Child) *subprocess.Child, timing timing,
	env ...string,
) family {
	t.Helper()
	server, err := apisim.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	content, err := server.Kubeconfig("leader", "default")
	require.NoError(t, err)
	file := filepath.Join(publicDir(t), "kubeconfig")
	require.NoError(t, os.WriteFile(file, content, 0o644))
	config, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	f := family{Child: subprocess.New(t, program), client: kubernetes.NewForConfigOrDie(config), releases: &releases{}}
	server.Observe(func(c apisim.Change) {
		if c.After != nil && c.After.GetAnnotations()[lease.ReleasedAnnotation] != "" {
			f.releases.mu.Lock()
			defer f.releases.mu.Unlock()
			f.releases.times = append(f.releases.times, time.Now())
			if f.releases.look != nil {
				f.releases.look()
			}
		}
	})
	f.Env = append(append(f.Env, serverEnv+"="+file, timingEnv+"="+timing.String()), env...)
	start(f.Child)
	f.leader, _ = f.LineOrEnd()
	return f
}

// kill kills the child, not the supervisor.
func (f family) kill(t *testing.T) (at time.Time) {
	t.Helper()
	pid, err := strconv.Atoi(f.leader)
	require.NoError(t, err)
	at = time.Now()
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	return at
}

func (f family) record(t *testing.T) lease.Record {
	t.Helper()
	l, err := f.client.CoordinationV1().Leases("default").Get(t.Context(), "l", metav1.GetOptions{})
	require.NoError(t, err)
	return lease.RecordOf(l)
}

func TestLeaseOfADeadProcessIsReleased(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, order, exit string }{
		{"killed", "", "exit status 137"},
		{"by a fault", "fault", "exit status 2"},
		{"by a panic", "panic", "exit status 2"},
		{"by os.Exit", "exit", "exit status 3"},
	} {
		for kind, starts := range map[string]func(*subprocess.Child) *subprocess.Child{
			"": (*subprocess.Child).Start, ", as PID 1": (*subprocess.Child).StartAsPID1,
		} {
			t.Run(test.name+kind, func(t *testing.T) {
				t.Parallel()
				f := startWith(t, "leader", starts, ample)
				f.Tell("write")
				require.Equal(t, "<nil>", f.Line(), "a request that is answered delays nothing")
				died := time.Now()
				switch {
				case test.order != "":
					f.Tell(test.order)
				case kind == "":
					died = f.kill(t)
				default: // its number is one of its namespace
					f.killChild(t)
				}
				assert.Equal(t, test.exit, f.End())
				said := f.Rest()
				at, released := f.releases.at()
				require.True(t, released, said)
				assert.Less(t, at.Sub(died), ample.margin, "no request is under way: it need not wait")
				assert.Contains(t, said, "its Lease default/l was released")
				assert.True(t, f.record(t).Released())
			})
		}
	}
}

// killChild kills the child of a supervisor that is in a namespace of its own.
func (f family) killChild(t *testing.T) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, p := range processes {
		if pid := filepath.Base(p); status(pid, "PPid") == strconv.Itoa(f.Process.Pid) {
			f.leader = pid
			f.kill(t)
			return
		}
	}
	t.Fatal("the supervisor has no child")
}

func TestRequestsUnderWayAreWaitedFor(t *testing.T) {
	t.Parallel()
	t.Run("a guarded one without an answer", func(t *testing.T) {
		t.Parallel()
		address, arrived := hanging(t)
		f := start(t, "leader", patient, slowEnv+"="+address)
		f.Tell("write to the slow one")
		<-arrived
		f.assertReleasedAfterAMargin(t)
	})
	t.Run("unguarded ones, which are not counted", func(t *testing.T) {
		t.Parallel()
		start(t, "unguarded leader", patient).assertReleasedAfterAMargin(t)
	})
}

func (f family) assertReleasedAfterAMargin(t *testing.T) {
	t.Helper()
	died := f.kill(t)
	assert.Equal(t, "exit status 137", f.End())
	at, released := f.releases.at()
	require.True(t, released, f.Rest())
	assert.GreaterOrEqual(t, at.Sub(died), patient.margin)
}

func TestDescendantsEndBeforeTheRelease(t *testing.T) {
	t.Parallel()
	f := start(t, "leader", patient)
	f.Tell("start a daemon")
	daemon := f.Line()
	var state string
	f.releases.set(func() { state = status(daemon, "State") })
	f.kill(t)
	assert.Equal(t, "exit status 137", f.End())
	_, released := f.releases.at()
	require.True(t, released, f.Rest())
	assert.Empty(t, state, "the daemon")
}

// stoppedUntilItsEnd returns a leader that does something and is stopped then, past the end of its term.
func stoppedUntilItsEnd(t *testing.T, does func(family)) (f family) {
	t.Helper()
	subprocess.InTime(t, 2*time.Second, func(within time.Duration) bool {
		f = startWith(t, "leader", (*subprocess.Child).Start, brief(within))
		does(f)
		pid, err := strconv.Atoi(f.leader)
		if err != nil || unix.Kill(pid, unix.SIGSTOP) != nil { // it has lost its term, and ended
			return false
		}
		<-time.After(within)
		return strings.HasPrefix(status(f.leader, "State"), "T") // or it has ended just before
	})
	return f
}

// The kernel kills a child that is stopped past its deadline, and so do others.
func TestDescendantsEndPastTheDeadline(t *testing.T) {
	t.Parallel()
	var daemon string
	f := stoppedUntilItsEnd(t, func(f family) {
		f.Tell("start a daemon")
		daemon, _ = f.LineOrEnd()
	})
	require.NotEmpty(t, status(daemon, "State"))
	f.kill(t)
	assert.Equal(t, "exit status 137", f.End())
	assert.Empty(t, status(daemon, "State"), "the daemon")
	assert.Contains(t, f.Rest(), "its Lease default/l is not released: its term has ended by itself")
}

// The kernel forgets a parent-death signal when a process gets capabilities or another user. A program may
// close descriptors that it does not know.
func TestChildDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	for _, ties := range []string{"none", "signal", "descriptors"} {
		t.Run("that loses "+ties, func(t *testing.T) {
			t.Parallel()
			start(t, "leader", ample, losesEnv+"="+ties).assertChildDiesWithSupervisor(t)
		})
	}
	for name, prepare := range map[string]func(*testing.T, *subprocess.Child){
		"with capabilities of its file": func(t *testing.T, c *subprocess.Child) { capable(t, install(t, c)) },
		"that is setuid": func(t *testing.T, c *subprocess.Child) {
			require.NoError(t, os.Chmod(install(t, c), 0o755|os.ModeSetuid))
		},
		"that has changed its user": func(_ *testing.T, c *subprocess.Child) { c.Env = append(c.Env, userEnv+"=1") },
		"that has changed its user in a user namespace": func(t *testing.T, c *subprocess.Child) {
			install(t, c)
			mapping := []syscall.SysProcIDMap{{HostID: 1 << 20, Size: 2}}
			c.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping,
				Credential: &syscall.Credential{NoSetGroups: true},
			}
			c.Env = append(c.Env, userEnv+"=1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getuid() != 0 {
				t.Skip("NOT TESTED: only root may make such a process")
			}
			startWith(t, "leader", func(c *subprocess.Child) *subprocess.Child {
				prepare(t, c)
				return c.Start()
			}, ample).assertChildDiesWithSupervisor(t)
		})
	}
}

func (f family) assertChildDiesWithSupervisor(t *testing.T) {
	t.Helper()
	pid, err := strconv.Atoi(f.leader)
	require.NoError(t, err)
	f.Send(unix.SIGKILL)
	assert.Equal(t, "signal: killed", f.End())
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		var how unix.WaitStatus
		_, _ = unix.Wait4(pid, &how, 0, nil) // it became a child of this process
		ended <- how
	}()
	select {
	case how := <-ended:
		assert.Equal(t, unix.SIGKILL, how.Signal())
	case <-time.After(time.Minute):
		assert.Fail(t, "the child lives")
		f.kill(t)
		<-ended
	}
	assert.NotEmpty(t, f.record(t).Holder(), "nothing has released the Lease")
}

// install lets another user run a copy of the program.
func install(t *testing.T, c *subprocess.Child) (path string) {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path = filepath.Join(publicDir(t), "leader")
	subprocess.WriteProgram(t, path, string(program))
	require.NoError(t, os.Chmod(path, 0o755))
	c.Path = path
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return path
}

// capable gives a file CAP_NET_BIND_SERVICE, permitted and effective.
func capable(t *testing.T, path string) {
	t.Helper()
	value := binary.LittleEndian.AppendUint32(nil, 0x02000001) // VFS_CAP_REVISION_2, VFS_CAP_FLAGS_EFFECTIVE
	value = binary.LittleEndian.AppendUint32(value, 1<<unix.CAP_NET_BIND_SERVICE)
	value = append(value, make([]byte, 3*4)...)
	require.NoError(t, unix.Setxattr(path, "security.capability", value, 0))
}

// publicDir is a directory that every user can read.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bellwether-*")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func TestNothingIsReleasedPastTheDeadline(t *testing.T) {
	t.Parallel()
	f := stoppedUntilItsEnd(t, func(family) {})
	before := f.record(t)
	f.kill(t)
	assert.Equal(t, "exit status 137", f.End())
	assert.Contains(t, f.Rest(), "its Lease default/l is not released: its term has ended by itself")
	assert.Equal(t, before, f.record(t))
}

func TestRecordOfAnotherProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := start(t, "leader", ample)
	pid, err := strconv.Atoi(f.leader)
	require.NoError(t, err)
	subprocess.Stop(t, pid) // it cannot renew meanwhile, nor see that a renewal is refused
	var taken *coordinationv1.Lease
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() (err error) { // a renewal may be under way
		l := f.record(t).Lease().DeepCopy()
		l.Spec.HolderIdentity = ptr.To("another")
		lease.SetProcess(l, "another")
		taken, err = f.client.CoordinationV1().Leases("default").Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	}))
	f.kill(t)
	assert.Equal(t, "exit status 137", f.End())
	assert.Equal(t, taken, f.record(t).Lease())
	assert.Empty(t, f.Rest())
}

func TestCleanEndNeedsNoSupervisor(t *testing.T) {
	t.Parallel()
	f := start(t, "leader", ample)
	f.Send(unix.SIGTERM) // is forwarded
	assert.Equal(t, "exit status 0", f.End())
	assert.True(t, f.record(t).Released())
	assert.Empty(t, f.Rest())
}

func TestShardIsReleasedIfItIsInNoCrashLoop(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		f := start(t, "shard", ample)
		f.kill(t)
		assert.Equal(t, "exit status 137", f.End())
		_, released := f.releases.at()
		assert.True(t, released, f.Rest())
	})
	t.Run("not if it has just begun", func(t *testing.T) {
		t.Parallel()
		f := start(t, "young shard", ample)
		f.kill(t)
		assert.Equal(t, "exit status 137", f.End())
		assert.Contains(t, f.Rest(), "it died soon after it had taken the lease")
		assert.Equal(t, "l", f.record(t).Holder())
	})
}

func TestSupervisorCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	f := start(t, "leader", ample, "BELLWETHER_SUPERVISOR=off")
	assert.Equal(t, strconv.Itoa(f.Process.Pid), f.leader, "there is one process")
	f.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 0", f.End())
}

// A program that is started with a variable of its own has one supervisor, whatever is in it.
func TestThereIsOneSupervisor(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "1", "on", strconv.Itoa(os.Getpid())} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			f := start(t, "leader", ample, "BELLWETHER_SUPERVISOR="+value)
			parent := strconv.Itoa(f.Process.Pid)
			if value == strconv.Itoa(os.Getpid()) { // as if this process was its supervisor
				assert.Equal(t, parent, f.leader)
			} else {
				assert.Equal(t, parent, status(f.leader, "PPid"))
			}
			f.Send(unix.SIGTERM)
			assert.Equal(t, "exit status 0", f.End())
		})
	}
}
