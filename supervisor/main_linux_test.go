package supervisor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

const (
	serverEnv = "BELLWETHER_TEST_KUBECONFIG"
	slowEnv   = "BELLWETHER_TEST_SLOW_SERVER"

	timingEnv = "BELLWETHER_TEST_TIMING" // a timing
	userEnv   = "BELLWETHER_TEST_USER"   // that the leader changes to
	losesEnv  = "BELLWETHER_TEST_LOSES"  // what the leader loses of its ties to its supervisor
)

// timing is that of a term, and how long a daemon lives that no process kills.
type timing struct{ duration, margin, daemon time.Duration }

var (
	// ample is for what need not wait for the end of any of these times, on a machine however slow.
	ample = timing{60 * time.Second, 20 * time.Second, 10 * time.Second}
	// patient has a short margin, for what waits for one.
	patient = timing{60 * time.Second, time.Second, 10 * time.Second}
)

// brief is a timing whose deadline comes after d, which is two seconds at least. The long margin is for what
// has a part of it.
func brief(d time.Duration) timing { return timing{d + time.Minute, time.Minute, 10*time.Second + 2*d} }

func (t timing) String() string { return fmt.Sprint(t.duration, " ", t.margin, " ", t.daemon) }

// timingOf reads what String has written.
func timingOf(s string) timing {
	var durations []time.Duration
	for text := range strings.FieldsSeq(s) {
		durations = append(durations, must(time.ParseDuration(text)))
	}
	return timing{durations[0], durations[1], durations[2]}
}

var programs = map[string]func(){
	"leader":           func() { lead(true) },
	"unguarded leader": func() { lead(false) },
	"shard":            func() { hold(-1) },
	"young shard":      func() { hold(0) },
	"daemon": func() { // deaf, and of its own session
		fmt.Println(os.Getpid())
		<-time.After(timingOf(os.Getenv(timingEnv)).daemon)
	},
}

func TestMain(m *testing.M) { subprocess.Main(m, programs) }

// init keeps the main goroutine on the main thread, which does not end when its goroutine does.
func init() { runtime.LockOSThread() }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// lead prints its process number when it leads, and then does what its input says.
func lead(guarded bool) {
	parent := supervisor.Start()
	klog.LogToStderr(false) // what client-go logs of a busy machine is no answer
	klog.SetOutput(io.Discard)
	config := must(clientcmd.BuildConfigFromFlags("", os.Getenv(serverEnv)))
	leases := kubernetes.NewForConfigOrDie(leaderelection.LeaseConfig(config))
	if user := os.Getenv(userEnv); user != "" {
		must(0, syscall.Setuid(must(strconv.Atoi(user))))
	}
	timing := timingOf(os.Getenv(timingEnv))
	elector := must(leaderelection.New(leases, leaderelection.Config{
		Namespace: "default", Name: "l", LeaseDuration: timing.duration, Margin: timing.margin, MissedRenewals: 1,
		Supervisor: parent.Client(config),
	}))
	switch os.Getenv(losesEnv) {
	case "signal":
		must(0, unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0))
	case "descriptors":
		must(0, errors.Join(unix.Close(3), unix.Close(4)))
	}
	if guarded {
		config.Wrap(elector.WrapTransport)
	}
	client := kubernetes.NewForConfigOrDie(config)
	slow := kubernetes.NewForConfigOrDie(config)
	if address := os.Getenv(slowEnv); address != "" {
		config.Host = address
		slow = kubernetes.NewForConfigOrDie(config)
	}
	err := elector.Run(untilTerm(), func(ctx context.Context) error {
		obey(ctx, client, slow)
		return nil
	})
	must(0, err)
}

// hold is lead of a shard.
func hold(minUptime time.Duration) {
	parent := supervisor.Start()
	klog.LogToStderr(false) // what client-go logs of a busy machine is no answer
	klog.SetOutput(io.Discard)
	config := must(clientcmd.BuildConfigFromFlags("", os.Getenv(serverEnv)))
	timing := timingOf(os.Getenv(timingEnv))
	shard := must(shardlease.New(kubernetes.NewForConfigOrDie(shardlease.LeaseConfig(config)), shardlease.Config{
		Namespace: "default", Ring: "r", Identity: "l", LeaseDuration: timing.duration, Margin: timing.margin,
		Supervisor: parent.Client(config), MinUptime: minUptime, Logger: zap.NewNop(),
	}))
	config.Wrap(shard.WrapTransport)
	client := kubernetes.NewForConfigOrDie(config)
	must(0, shard.Run(untilTerm(), func(ctx context.Context) error {
		obey(ctx, client, client)
		return nil
	}))
}

func untilTerm() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	terms := make(chan os.Signal, 1)
	notifyTerm(terms)
	go func() {
		<-terms
		cancel()
	}()
	return ctx
}

func obey(ctx context.Context, client, slow kubernetes.Interface) {
	fmt.Println(os.Getpid())
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-lines:
			order(ctx, line, client, slow)
		}
	}
}

func order(ctx context.Context, line string, client, slow kubernetes.Interface) {
	write := func(c kubernetes.Interface) error {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
		return err
	}
	switch line {
	case "write":
		fmt.Println(write(client))
	case "write to the slow one":
		go func() { fmt.Println(write(slow)) }()
	case "start a daemon": // that no signal of a group or a session reaches
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), "BELLWETHER_TEST_PROGRAM=daemon")
		c.Stdout, c.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setsid: true}
		must(0, c.Start())
	case "exit":
		os.Exit(3)
	case "panic":
		panic("on purpose")
	case "fault":
		must(0, unix.Kill(os.Getpid(), unix.SIGSEGV))
	default:
		panic(line)
	}
}

// status is a line of /proc/<pid>/status; empty if there is no such process.
func status(pid, key string) string {
	content, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hanging is a server that answers when the test is over.
func hanging(t *testing.T) (address string, arrived <-chan struct{}) {
	t.Helper()
	requests, over := make(chan struct{}, 10), make(chan struct{})
	s := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests <- struct{}{}
		<-over
	}))
	t.Cleanup(func() { close(over) })
	return s, requests
}
