//go:build linux

package realnode_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// claim is something in a Pod's status, or its absence, that may prove that a container has ended.
type claim string

const (
	terminated    claim = "state.terminated of the container"
	lastState     claim = "lastState.terminated of the container"
	laterID       claim = "another container ID"
	laterRestarts claim = "a higher restart count"
	succeeded     claim = "phase Succeeded"
	failed        claim = "phase Failed"
	ended         claim = "phase Succeeded or Failed"
	gone          claim = "the Pod is gone"
	waiting       claim = "state.waiting"
	disrupted     claim = "condition DisruptionTarget"
)

// finding is a claim that a version of a Pod makes about a container, for the first time.
type finding struct {
	Claim     claim
	At        time.Time // it has been seen
	Container string
	Alive     bool // the container had a process then
	Says      string
}

// history is what the versions of an app's Pods say about its containers, as they come.
type history struct {
	logs string // a directory

	mu         sync.Mutex
	pods       []corev1.Pod           // first versions with a container
	files      map[types.UID][]string // the logs of their containers, which stay when the Pod is gone
	containers map[types.UID][]string // IDs, in their order
	restarts   map[string]int32       // by container ID
	findings   []finding
}

// watchPods records until the test ends.
func (a *app) watchPods() *history {
	h := &history{
		logs: a.t.TempDir(), files: map[types.UID][]string{},
		containers: map[types.UID][]string{}, restarts: map[string]int32{},
	}
	pods := cluster.Client.CoreV1().Pods(a.namespace)
	list, err := pods.List(a.t.Context(), metav1.ListOptions{})
	require.NoError(a.t, err)
	for i := range list.Items {
		h.add(&list.Items[i], false)
	}
	e2e.Follow(a.t, list.ResourceVersion, pods.Watch, func(e watch.Event) {
		h.add(e.Object.(*corev1.Pod), e.Type == watch.Deleted)
	})
	return h
}

func (h *history) add(pod *corev1.Pod, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, status := range pod.Status.ContainerStatuses {
		if id := status.ContainerID; id != "" && !slices.Contains(h.containers[pod.UID], id) {
			h.began(pod, status)
		}
		for _, id := range h.containers[pod.UID] {
			h.read(id, pod, status, deleted)
		}
	}
}

// began records a container. The kubelet removes its log with the Pod: another link keeps it.
func (h *history) began(pod *corev1.Pod, status corev1.ContainerStatus) {
	if len(h.containers[pod.UID]) == 0 {
		h.pods = append(h.pods, *pod)
	}
	h.containers[pod.UID] = append(h.containers[pod.UID], status.ContainerID)
	h.restarts[status.ContainerID] = status.RestartCount
	name := fmt.Sprintf("%d.log", status.RestartCount)
	file := filepath.Join(cluster.Node(pod.Spec.NodeName).Dir, "log", "pods",
		pod.Namespace+"_"+pod.Name+"_"+string(pod.UID), status.Name, name)
	kept := filepath.Join(h.logs, string(pod.UID)+"-"+name)
	if os.Link(file, kept) == nil {
		h.files[pod.UID] = append(h.files[pod.UID], kept)
	}
}

// line is one of a container's log.
type line struct {
	Message string  `json:"msg"`
	At      float64 `json:"ts"`
	Step    int     `json:"step"`
	Object  string  `json:"object"`
}

// runs are the lines of each run of a Pod's container, in their order. They are read from the node's
// disk: no kubelet has to live.
func (h *history) runs(pod types.UID) (runs [][]line) {
	h.mu.Lock()
	files := slices.Clone(h.files[pod])
	h.mu.Unlock()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var lines []line
		for text := range strings.Lines(string(content)) {
			_, text, _ = strings.Cut(text, " F ") // time, stream, F: the whole line
			var l line
			if json.Unmarshal([]byte(text), &l) == nil {
				lines = append(lines, l)
			}
		}
		runs = append(runs, lines)
	}
	return runs
}

// said is when a Pod last logged a line, in seconds, or 0.
func (h *history) said(message string) (at float64) {
	for _, l := range h.lines() {
		if l.Message == message {
			at = max(at, l.At)
		}
	}
	return at
}

// lines are those of all Pods that there are or were, each with its Pod.
func (h *history) lines() iter.Seq2[types.UID, line] {
	h.mu.Lock()
	pods := slices.Clone(h.pods)
	h.mu.Unlock()
	return func(yield func(types.UID, line) bool) {
		for _, pod := range pods {
			for _, l := range slices.Concat(h.runs(pod.UID)...) {
				if !yield(pod.UID, l) {
					return
				}
			}
		}
	}
}

// read finds what a version says about one container.
func (h *history) read(id string, pod *corev1.Pod, status corev1.ContainerStatus, deleted bool) {
	ends := func(s corev1.ContainerState) bool { return s.Terminated != nil && s.Terminated.ContainerID == id }
	ids := h.containers[pod.UID]
	claims := map[claim]bool{
		terminated:    ends(status.State),
		lastState:     ends(status.LastTerminationState),
		laterID:       slices.Index(ids, status.ContainerID) > slices.Index(ids, id),
		laterRestarts: status.RestartCount > h.restarts[id],
		succeeded:     pod.Status.Phase == corev1.PodSucceeded,
		failed:        pod.Status.Phase == corev1.PodFailed,
		ended:         pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		waiting:       status.State.Waiting != nil,
		gone:          deleted,
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			claims[disrupted] = true
		}
	}
	for c, made := range claims {
		known := slices.ContainsFunc(h.findings, func(f finding) bool { return f.Claim == c && f.Container == id })
		if !made || known {
			continue
		}
		at := time.Now()
		processes, _ := realnode.Processes(id)
		h.findings = append(h.findings, finding{c, at, id, len(processes) > 0, say(pod, status)})
	}
}

// about are the findings about the first container of a Pod.
func (h *history) about(pod types.UID) (findings []finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.containers[pod]
	for _, f := range h.findings {
		if len(ids) > 0 && f.Container == ids[0] {
			findings = append(findings, f)
		}
	}
	return findings
}

// container is the ID of the latest container of a Pod; empty: none was reported yet.
func (h *history) container(pod types.UID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.containers[pod]
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}

// say is a status in one line.
func say(pod *corev1.Pod, status corev1.ContainerStatus) string {
	words := []string{string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		words = append(words, "reason "+pod.Status.Reason)
	}
	for name, state := range map[string]corev1.ContainerState{
		"state": status.State, "lastState": status.LastTerminationState,
	} {
		switch ended := state.Terminated; {
		case ended != nil:
			words = append(words, fmt.Sprintf("%s terminated %s %d", name, ended.Reason, ended.ExitCode))
		case state.Waiting != nil:
			words = append(words, name+" waiting "+state.Waiting.Reason)
		case state.Running != nil:
			words = append(words, name+" running")
		}
	}
	slices.Sort(words[1:])
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget {
			words = append(words, "DisruptionTarget "+condition.Reason)
		}
	}
	return strings.Join(append(words, fmt.Sprintf("restarts %d", status.RestartCount)), ", ")
}

// reign is the time that a run of a process has led, by its own clock.
type reign struct {
	pod         types.UID
	begun, last float64
}

// reigns are those of all Pods that there are or were, in the order in which they began.
func (h *history) reigns() (all []reign) {
	for pod, l := range h.lines() {
		switch {
		case l.Message == "working" && l.Step <= 1:
			all = append(all, reign{pod, l.At, l.At})
		case (l.Message == "beat" || l.Message == "working") && len(all) > 0:
			all[len(all)-1].last = l.At
		}
	}
	slices.SortFunc(all, func(a, b reign) int { return cmp.Compare(a.begun, b.begun) })
	return all
}

// seconds is the time now, as the lines of logs have it.
func seconds() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// overlaps are pairs: the second one has begun to lead while the first one led.
func overlaps(all []reign) (pairs [][2]reign) {
	for i := 1; i < len(all); i++ {
		if all[i-1].last >= all[i].begun {
			pairs = append(pairs, [2]reign{all[i-1], all[i]})
		}
	}
	return pairs
}

// proofs are the claims that a container's processes have ended.
var proofs = []claim{terminated, lastState, laterID, laterRestarts, succeeded, failed}

// judge requires that no two processes have led at once, by their clocks and by the audit log, and
// that none has lived when a version of its Pod proved its end.
func (a *app) judge() {
	a.t.Helper()
	assert.Empty(a.t, overlaps(a.history.reigns()))
	a.judgeReigns()
	a.history.mu.Lock()
	defer a.history.mu.Unlock()
	for _, f := range a.history.findings {
		if slices.Contains(proofs, f.Claim) {
			assert.False(a.t, f.Alive, "%s, and the container has processes: %s", f.Claim, f.Says)
		}
	}
}
