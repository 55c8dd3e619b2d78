package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

const (
	// again is when to look again for what others have to do.
	again = time.Second
	// refusedFor is how long pods are tried that the API server refuses to delete.
	refusedFor = time.Minute
)

// Options says which pods are released or evicted, and how. The zero value is fine.
type Options struct {
	// Storage limits it to pods that use volumes of a storage from which the node was cut off, and
	// no other volumes that other nodes could use as well. Nil means all pods, as is right when the
	// machine is off.
	Storage *Storage
	// Budget is called before pods go, with their number, and says how many of them may
	// go now; the others go in later steps. Nil means all at once.
	Budget func(pods int) int
	// OnPod is called, synchronously, for each pod that was released or evicted, and counted as
	// deleted: the place for Events.
	OnPod func(*corev1.Pod)
}

// Progress is how far a release or an eviction of pods has come. Its zero value begins; the caller
// passes the last one back, also after an error. It need not survive a crash: then it takes longer,
// and nothing is done that would not be done anyway.
type Progress struct {
	// Pods counts. A caller that has stored the counts before a crash may begin with them.
	Pods v1alpha1.Pods
	// Left names the pods that were found, of those that are to go, as namespace/name.
	Left []string
	// Done says that nothing is left to do.
	Done bool
	// After is when to come back, if it is not done. 0 is at once.
	After time.Duration

	refused map[types.UID]time.Time // when pods were refused first, by their UIDs
}

// DeletePods takes a step of the release of the node's pods, and never waits. Call it again, with
// the Progress that it returned, after Progress.After, until that is Done: a list from the API
// server has shown then that nothing is left to do for any pod.
//
// The proof has to be that the machine is without power, or with a Storage that it is cut off from
// that. Each pod is set to Failed with the condition DisruptionTarget, and then deleted at once, by
// its UID: StatefulSets' pods first, then those with volumes, then the others, those of DaemonSets
// last. Mirror pods stay, and pods that have never begun and would come back at once, because they
// tolerate the fence. Pods that only their finalizers keep are not waited for: see [Node.Left].
//
// A pod that the API server refuses to delete, say because of a webhook, does not keep the others:
// the errors are returned together, and the pod is tried again for a minute; then it is done
// without it. Any other error ends the step. If the node is gone it is ErrNodeGone: pods of a node
// of this name are another machine's.
func (n *Node) DeletePods(ctx context.Context, prove Proof, options Options, progress Progress) (Progress, error) {
	if prove == nil {
		return progress, errNoProof
	}
	if err := options.Storage.Validate(); err != nil {
		return progress, err
	}
	progress.After = again // should anything fail, or be left
	if _, err := n.get(ctx); err != nil {
		return progress, n.wrap("read it", err)
	}
	pods, err := n.pods(ctx, options.Storage, func(pod *corev1.Pod) bool { return !returns(pod) })
	if err != nil {
		return progress, err
	}
	left := unreleased(pods)
	progress = report(progress, pods, len(left))
	if progress.Done = !slices.ContainsFunc(left, progress.hopeful); progress.Done {
		progress.After = 0
		return progress, nil
	}
	// Those that were refused come last, or a budget would be spent on them.
	slices.SortStableFunc(
		left,
		func(a, b corev1.Pod) int { return progress.refused[a.UID].Compare(progress.refused[b.UID]) },
	)
	return n.releaseAll(ctx, prove, left, options, progress)
}

// releaseAll releases as many of the pods as may go now.
func (n *Node) releaseAll(
	ctx context.Context,
	prove Proof,
	pods []corev1.Pod,
	options Options,
	progress Progress,
) (Progress, error) {
	granted := grant(options, len(pods))
	var errs []error
	for i := range pods[:granted] {
		ended, err := n.release(ctx, prove, &pods[i])
		if err != nil {
			errs = append(errs, err)
			if !isRefusal(err) {
				return progress, errors.Join(errs...)
			}
			progress = progress.refuse(&pods[i])
		}
		if ended {
			progress.Pods.Deleted++
			if options.OnPod != nil {
				options.OnPod(&pods[i])
			}
		}
	}
	if granted == len(pods) && len(errs) == 0 {
		progress.After = 0
	}
	return progress, errors.Join(errs...)
}

// refuse takes note of a pod that the API server refuses to delete.
func (p Progress) refuse(pod *corev1.Pod) Progress {
	if _, before := p.refused[pod.UID]; before {
		return p
	}
	refused := map[types.UID]time.Time{pod.UID: time.Now()}
	maps.Copy(refused, p.refused)
	p.refused = refused
	return p
}

// hopeful says whether a pod is worth another try.
func (p Progress) hopeful(pod corev1.Pod) bool {
	since, refused := p.refused[pod.UID]
	return !refused || time.Since(since) < refusedFor
}

// Left names the pods that are still there, of those that a release is about, and what is still
// attached to the node: VolumeAttachments, and volumes in its status. If the node is gone it is
// ErrNodeGone.
func (n *Node) Left(ctx context.Context) (pods, attachments []string, err error) {
	node, err := n.get(ctx)
	if err != nil {
		return nil, nil, n.wrap("read it", err)
	}
	found, err := n.pods(ctx, nil, func(pod *corev1.Pod) bool { return !returns(pod) })
	if err != nil {
		return nil, nil, err
	}
	attached, err := n.attachments(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range attached {
		attachments = append(attachments, a.Name)
	}
	// Volumes that no driver of CSI attaches are only here.
	for _, v := range node.Status.VolumesAttached {
		attachments = append(attachments, string(v.Name))
	}
	return names(found), attachments, nil
}

// grant is how many of the pods may go now.
func grant(options Options, pods int) int {
	if options.Budget == nil || pods == 0 {
		return pods
	}
	return max(0, min(pods, options.Budget(pods)))
}

// report says which pods are left, and to how many of them nothing has been done yet.
func report(progress Progress, pods []corev1.Pod, untouched int) Progress {
	progress.Left = names(pods)
	progress.Pods.Listed = max(progress.Pods.Listed, progress.Pods.Deleted+int32(untouched))
	return progress
}

func names(pods []corev1.Pod) []string {
	var names []string
	for i := range pods {
		names = append(names, pods[i].Namespace+"/"+pods[i].Name)
	}
	return names
}

func unreleased(pods []corev1.Pod) []corev1.Pod {
	var left []corev1.Pod
	for i := range pods {
		if !isReleased(&pods[i]) {
			left = append(left, pods[i])
		}
	}
	return left
}
