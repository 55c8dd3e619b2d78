package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// DetachVolumes deletes the VolumeAttachments of the node, or those of a storage. It returns how
// many it found. Repeat it until that is 0, when the drivers have detached them.
//
// A release does not need it, because Kubernetes detaches by itself. It is for volumes of a node
// that is not released, and the proof must be that the machine can no longer write to them.
func (n *Node) DetachVolumes(ctx context.Context, prove Proof, storage *api.Storage) (left int, err error) {
	if prove == nil {
		return 0, errNoProof
	}
	if err := storage.Validate(); err != nil {
		return 0, err
	}
	attachments, err := n.attachments(ctx, storage)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, a := range attachments {
		if a.DeletionTimestamp != nil {
			continue
		}
		err := act(ctx, prove, func(ctx context.Context) error {
			return n.client.StorageV1().
				VolumeAttachments().
				Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
		})
		// After a conflict it is another one, which the next call finds.
		if err == nil || kube.Absent(err, storagev1.Resource("volumeattachments"), a.Name) ||
			apierrors.IsConflict(err) {
			continue
		}
		errs = append(errs, n.wrap(fmt.Sprintf("delete VolumeAttachment %s", a.Name), err))
		if !isRefusal(err) {
			break
		}
	}
	return len(attachments), errors.Join(errs...)
}

// VolumesInUse names what may still use volumes on a working node after Evict is done: pods with
// claims, such as those of DaemonSets, and volumes that the kubelet reports in use, as it does from
// before it mounts them until it has unmounted them. If the node is gone, the error is ErrNodeGone.
func (n *Node) VolumesInUse(ctx context.Context) ([]string, error) {
	node, err := n.get(ctx)
	if err != nil {
		return nil, n.wrap("read it", err)
	}
	pods, err := n.pods(ctx, nil, func(pod *corev1.Pod) bool {
		return !isOver(pod) &&
			slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return claim(pod, &v) != "" })
	})
	if err != nil {
		return nil, err
	}
	users := names(pods)
	for _, volume := range node.Status.VolumesInUse {
		users = append(users, string(volume))
	}
	return users, nil
}

// attachments lists the VolumeAttachments of the node, or those of a storage.
func (n *Node) attachments(ctx context.Context, storage *api.Storage) ([]storagev1.VolumeAttachment, error) {
	var attachments []storagev1.VolumeAttachment
	v := &volumes{node: n, storage: storage}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
		defer cancel()
		page, err := n.client.StorageV1().VolumeAttachments().List(ctx, options)
		return page, explain(ctx, kube.Versioned(page, err))
	})
	// No field selector selects by node.
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		a, ok := object.(*storagev1.VolumeAttachment)
		if !ok {
			return fmt.Errorf("not a VolumeAttachment: %T", object)
		}
		if a.Spec.NodeName != n.config.Name {
			return nil
		}
		if storage != nil {
			if held, err := v.attachment(ctx, a); !held || err != nil {
				return err
			}
		}
		attachments = append(attachments, *a)
		return nil
	})
	return attachments, n.wrap("list its VolumeAttachments", err)
}

// isRefusal reports whether the API server has examined and refused a request. Then other requests
// may still succeed. Any other error (no answer, no proof, too busy) ends the pass.
func isRefusal(err error) bool {
	return kube.Stated(err) && !errors.Is(err, ErrNotProved) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsServerTimeout(err) &&
		!apierrors.IsTimeout(err)
}
