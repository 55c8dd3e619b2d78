package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

const (
	// again is the pause before the next look at what others must do.
	again = time.Second
	// refusedFor is how long a deletion that the API server refuses is repeated.
	refusedFor = time.Minute
	// listLasts is how long the pods of a list are released before they are listed again.
	listLasts = 10 * time.Second
)

// Options of a release or an eviction. The zero value is valid.
type Options struct {
	// Storage restricts it to pods that use volumes of a storage from which the node was cut off,
	// and no other volumes that other nodes could also use. If nil, all pods are released, for a
	// machine that is off.
	Storage *api.Storage
	// Budget is called with the number of pods before they are released, and returns how many may
	// be released now. The others follow in later calls. If nil, all may be released at once. It
	// does not apply to evictions.
	Budget func(pods int) int
	// OnPod is called synchronously for each pod that was released or evicted and counts as
	// deleted, for example to record Events.
	OnPod func(*corev1.Pod)
}

// Progress is the progress of a release or an eviction. Start with the zero value and pass the last
// one on, even after an error. If it is lost in a crash, the release only takes longer.
type Progress struct {
	// Pods has the counts. A caller that has stored them before a crash may start with them.
	Pods v1alpha1.Pods
	// Left names the remaining pods, as namespace/name.
	Left []string
	// Done is set when nothing is left to do.
	Done bool
	// After is when to call again if it is not done. 0 means at once.
	After time.Duration

	refused map[types.UID]time.Time // when each pod was first refused
	pods    []corev1.Pod            // of the last list, those that are still to be released
	listed  time.Time               // when they were listed
}

// DeletePods does a part of the release of the node's pods. It does not wait. Call it again after
// Progress.After, with the returned Progress, until that is Done, when a consistent list has shown
// that nothing is left to do for any pod.
//
// A call that continues within seconds lists nothing, so that a list does not make its proof older.
// Otherwise no proof would be in time with a slow API server. An old list does no harm, because
// pods are deleted by their UIDs.
//
// The proof must be that the machine has no power or, with a Storage, that it is cut off from it.
// Each pod is set to Failed with the condition DisruptionTarget, and then deleted at once by its
// UID: first the pods of StatefulSets, then those with volumes, then the others, those of
// DaemonSets last. Mirror pods stay, and so do pods that have never started and would come back at
// once because they tolerate the fence. It does not wait for pods that only finalizers keep; see
// [Node.Left].
//
// A pod that the API server refuses to delete, for example because of a webhook, does not stop the
// others. The errors are returned together, and the deletion is repeated for a minute, after which
// the release is done without it. Any other error ends the call. If the node is gone when the pods
// are listed, the error is ErrNodeGone, because pods of a new node of this name belong to another
// machine.
func (n *Node) DeletePods(ctx context.Context, prove Proof, options Options, progress Progress) (Progress, error) {
	if prove == nil {
		return progress, errNoProof
	}
	if err := options.Storage.Validate(); err != nil {
		return progress, err
	}
	progress.After = again // if anything fails or is left
	now := time.Now()
	if len(progress.pods) > 0 && now.Sub(progress.listed) < listLasts {
		return n.releaseAll(ctx, prove, options, progress)
	}
	progress.pods = nil
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
	// Refused pods come last, so that they do not use up the budget.
	slices.SortStableFunc(
		left,
		func(a, b corev1.Pod) int { return progress.refused[a.UID].Compare(progress.refused[b.UID]) },
	)
	progress.pods, progress.listed = left, now
	return n.releaseAll(ctx, prove, options, progress)
}

// releaseAll releases as many of the listed pods as may go now.
func (n *Node) releaseAll(ctx context.Context, prove Proof, options Options, progress Progress) (Progress, error) {
	progress.pods = slices.Clone(progress.pods) // they are changed, and the caller may keep the old progress
	var errs []error
	for range grant(options, len(progress.pods)) {
		pod := &progress.pods[0]
		ended, err := n.release(ctx, prove, pod)
		if err != nil {
			errs = append(errs, err)
			if !isRefusal(err) {
				return progress, errors.Join(errs...)
			}
			progress = progress.refuse(pod)
		}
		if ended {
			progress.Pods.Deleted++
			if options.OnPod != nil {
				options.OnPod(pod)
			}
		}
		progress.pods = progress.pods[1:]
	}
	switch {
	case len(errs) > 0:
		progress.pods = nil // the next list has the refused ones last
	case len(progress.pods) == 0:
		progress.After = 0
	}
	return progress, errors.Join(errs...)
}

// refuse records that the API server refuses to delete a pod.
func (p Progress) refuse(pod *corev1.Pod) Progress {
	if _, before := p.refused[pod.UID]; before {
		return p
	}
	refused := map[types.UID]time.Time{pod.UID: time.Now()}
	maps.Copy(refused, p.refused)
	p.refused = refused
	return p
}

// hopeful reports whether a pod is worth another try.
func (p Progress) hopeful(pod corev1.Pod) bool {
	since, refused := p.refused[pod.UID]
	return !refused || time.Since(since) < refusedFor
}

// Left names the remaining pods of a release, and what is still attached to the node:
// VolumeAttachments, and volumes in its status. If the node is gone, the error is ErrNodeGone.
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
	// Volumes without a CSI driver are only here.
	for _, v := range node.Status.VolumesAttached {
		attachments = append(attachments, string(v.Name))
	}
	return names(found), attachments, nil
}

// grant returns how many pods may go now.
func grant(options Options, pods int) int {
	if options.Budget == nil || pods == 0 {
		return pods
	}
	return max(0, min(pods, options.Budget(pods)))
}

// report records which pods are left, and how many of them were not touched yet.
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
