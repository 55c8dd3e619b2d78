package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// playedInside plays the chapter if this is the first process of the namespaces that the nodes are
// in. In the first process of a node it does not return.
func playedInside(ctx context.Context, out *report) (played bool, err error) {
	if realnode.Boot(); !realnode.Inside() {
		return false, nil
	}
	return true, playInside(ctx, out)
}

// playNodes plays the chapter in its own namespaces.
func playNodes(ctx context.Context, _ *stage) error {
	if err := realnode.Download(ctx, images); err != nil {
		return err
	}
	code, err := realnode.Enter(ctx)
	if err == nil && code != 0 {
		err = errors.New("the chapter has failed")
	}
	return err
}

// machines is a chapter: Pods on nodes with a real kubelet, where nodes lose their power.
type machines struct {
	*stage
	cluster *realnode.Cluster
	reigns  map[string]reign // by the file of its log
}

// reign is when a run of a process has led, by its own log. Times are in seconds, as there.
type reign struct {
	app, pod, node string
	begun, last    float64
}

const (
	daemonApp = "example-daemon" // logs with every step that it works
	lifeApp   = "example-leader" // logs once that it works

	examples = "github.com/bellwether-k8s/bellwether/examples/"
)

var images = map[string]realnode.Image{
	daemonApp + ":" + image.Version: {Program: examples + "leaderelection", Arguments: []string{"-work-interval=10ms"}},
	lifeApp + ":" + image.Version:   {Program: examples + "leaderforlife"},
}

func playInside(ctx context.Context, out *report) (err error) {
	m := &machines{stage: &stage{report: out}, reigns: map[string]reign{}}
	if err := m.during("Starting a control plane and three nodes, each with a kubelet and containerd", func() error {
		m.cluster, err = realnode.New(ctx, realnode.Options{Nodes: nodes, Images: images})
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.cluster.Close()) }()
	m.start = time.Now()
	return m.play(ctx)
}

func (m *machines) play(ctx context.Context) error {
	m.paragraph("Two Deployments: one whose leader has a Lease of 15 s, and one whose leader leads until its Pod has " +
		"ended. The machines of both leaders lose their power, one after the other.")
	m.paragraph("")
	for _, manifest := range []string{
		"leaderelection/rbac.yaml", "leaderforlife/rbac.yaml", "leaderforlife/rbac-optional.yaml",
		"leaderelection/deployment.yaml", "leaderforlife/deployment.yaml",
	} {
		if err := m.cluster.Apply(ctx, filepath.Join("..", manifest)); err != nil {
			return err
		}
	}
	daemon, err := m.leader(ctx, daemonApp, 0)
	if err != nil {
		return err
	}
	m.say(daemon.node, "%s leads by its Lease", daemon.pod)
	life, err := m.leader(ctx, lifeApp, 0)
	if err != nil {
		return err
	}
	m.say(life.node, "%s leads for life", life.pod)
	for _, blow := range []func(context.Context) error{m.loseDaemon, m.loseLife} {
		if err := sleep(ctx, calm); err != nil {
			return err
		}
		if err := blow(ctx); err != nil {
			return err
		}
	}
	return m.judge()
}

// loseDaemon cuts the power of the node whose leader has a Lease.
func (m *machines) loseDaemon(ctx context.Context) error {
	old, err := m.leader(ctx, daemonApp, 0)
	if err != nil {
		return err
	}
	node := m.cluster.Node(old.node)
	m.say(old.node, "the power is cut: the others wait until the Lease is 15 s old")
	if err := node.Off(); err != nil {
		return err
	}
	next, err := m.leader(ctx, daemonApp, unix(time.Now()))
	if err != nil {
		return err
	}
	m.say(next.node, "%s leads by its Lease", next.pod)
	m.result("power cut: the next leader by Lease worked after %v", inSeconds(next.begun-m.reign(old).last))
	m.say(old.node, "the power comes back")
	if err := node.On(); err != nil {
		return err
	}
	return m.cluster.Ready(ctx, old.node)
}

// loseLife cuts the power of the node with the leader for life. An operator has to confirm that it is off.
func (m *machines) loseLife(ctx context.Context) error {
	old, err := m.leader(ctx, lifeApp, 0)
	if err != nil {
		return err
	}
	node := m.cluster.Node(old.node)
	m.say(old.node, "the power is cut, where %s leads for life", old.pod)
	if err := node.Off(); err != nil {
		return err
	}
	cut := unix(time.Now())
	if err := m.cluster.Lost(ctx, old.node); err != nil {
		return err
	}
	m.say(old.node, "is not Ready, which proves nothing: it may only be cut off")
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	if last := m.latest(lifeApp); last.begun > cut {
		return fmt.Errorf("%s leads, and nothing has proved that %s has ended", last.pod, old.pod)
	}
	m.say(old.node, "kubectl taint node %s %s=nodeshutdown:NoExecute", old.node, corev1.TaintNodeOutOfService)
	at := time.Now()
	taint := fmt.Sprintf(`{"spec": {"taints": [{"key": %q, "value": "nodeshutdown", "effect": "NoExecute"}]}}`,
		corev1.TaintNodeOutOfService)
	if err := m.patch(ctx, old.node, taint); err != nil {
		return err
	}
	next, err := m.leader(ctx, lifeApp, cut)
	if err != nil {
		return err
	}
	m.say(next.node, "%s leads for life: the Pod before it is gone", next.pod)
	m.result("power cut, and an operator confirmed it: the next leader for life worked after %v",
		inSeconds(next.begun-unix(at)))
	m.say(old.node, "the power comes back")
	if err := errors.Join(node.On(), m.patch(ctx, old.node, `{"spec": {"taints": []}}`)); err != nil {
		return err
	}
	return m.cluster.Ready(ctx, old.node)
}

func (m *machines) patch(ctx context.Context, node, patch string) error {
	_, err := m.cluster.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	return err
}

// judge compares when the processes led.
func (m *machines) judge() error {
	m.sum()
	compared := 0
	for _, a := range m.reigns {
		for _, b := range m.reigns {
			if a.app == b.app && a.begun < b.begun {
				if compared++; a.last >= b.begun {
					return fmt.Errorf("two led at once: %s and %s", a.pod, b.pod)
				}
			}
		}
	}
	m.hanging(fmt.Sprintf("Two leaders at once: never (%d pairs of processes compared).", compared))
	return nil
}

// leader waits for the process of an app that has begun to lead last and after a time.
func (m *machines) leader(ctx context.Context, app string, after float64) (last reign, err error) {
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			last = m.latest(app)
			return last.begun > after, nil
		})
	return last, err
}

// latest reads the logs from the nodes' disks.
func (m *machines) latest(app string) (last reign) {
	for _, node := range nodes {
		files, _ := filepath.Glob(filepath.Join(m.cluster.Node(node).Dir, "log/pods/default_"+app+"-*/*/*.log"))
		for _, file := range files {
			if r, ok := readLog(file); ok {
				r.app, r.node = app, node
				r.pod = strings.Split(filepath.Base(filepath.Dir(filepath.Dir(file))), "_")[1]
				m.reigns[file] = r
			}
		}
	}
	for _, r := range m.reigns {
		if r.app == app && r.begun > last.begun {
			last = r
		}
	}
	return last
}

// reign returns what is known of a reign now.
func (m *machines) reign(known reign) reign {
	m.latest(known.app)
	for _, r := range m.reigns {
		if r.begun == known.begun && r.pod == known.pod {
			return r
		}
	}
	return known
}

// readLog returns when the process of a log has led, if ever.
func readLog(file string) (r reign, ok bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return r, false
	}
	for text := range strings.Lines(string(content)) {
		_, text, _ = strings.Cut(text, " F ") // time, stream, F: the whole line
		var line struct {
			Message string  `json:"msg"`
			At      float64 `json:"ts"`
		}
		if json.Unmarshal([]byte(text), &line) != nil || line.Message != "working" {
			continue
		}
		if !ok {
			r.begun, ok = line.At, true
		}
		r.last = line.At
	}
	return r, ok
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
