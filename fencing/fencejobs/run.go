package fencejobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// requestTimeout bounds a request to the API server.
const requestTimeout = 5 * time.Second

// create creates the Job of a request, or finds the Job that was created for it, and then passes
// the request on. The Job comes first, and its pod waits for the Secret. If this process ends in
// between, everything is deleted with the Job, and nothing is sent. If create returns an error and
// a Job, the Job may run.
func (j *Jobs) create(ctx context.Context, r request) (*batchv1.Job, error) {
	j.needRights(ctx)
	wanted, err := newJob(r, newSecretName(r.ID), j.config)
	if err != nil {
		return nil, err
	}
	var job *batchv1.Job
	jobs := j.client.BatchV1().Jobs(j.config.Namespace)
	err = j.insist(ctx, func(ctx context.Context) error {
		var err error
		job, err = jobs.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			job, err = jobs.Get(ctx, r.ID, metav1.GetOptions{})
		}
		return kube.Named(job, r.ID, err)
	})
	if err != nil {
		// The Job may exist now or later. Without the Secret, its pod never starts.
		return nil, fmt.Errorf("create the Job: %w", err)
	}
	if r.Window, err = adopted(job, r, j.config); err != nil {
		return nil, err
	}
	if ended(job) { // by another client
		return job, nil
	}
	secret, err := newSecret(r, job)
	if err != nil {
		return job, err
	}
	err = j.insist(ctx, func(ctx context.Context) error {
		created, err := j.client.CoreV1().Secrets(j.config.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // the name is unique to this Job
			return nil
		}
		return kube.Named(created, secret.Name, err)
	})
	if err != nil {
		return job, fmt.Errorf("create the Secret of the Job: %w", err)
	}
	return job, nil
}

// insist repeats try until it has an answer, or ctx ends. A refusal is an answer.
func (j *Jobs) insist(ctx context.Context, try func(context.Context) error) error {
	for {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		err := try(asking)
		cancel()
		if err == nil || j.answered(err) {
			kube.RoleOf(ctx).Refused(err)
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-time.After(j.config.Poll):
		}
	}
}

// answered reports whether another try would not help.
func (j *Jobs) answered(err error) bool {
	return kube.Stated(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsRequestEntityTooLargeError(err) ||
		kube.Absent(err, corev1.Resource("namespaces"), j.config.Namespace))
}

// await waits until a Job has an answer, or can no longer have one. The answer to a command counts
// once nothing of the Job can still run.
func (j *Jobs) await(ctx context.Context, job *batchv1.Job, r request, sends bool) (result, error) {
	waits, told := errors.New("not looked at yet"), false
	for {
		seen, err := j.look(ctx, job)
		if err == nil {
			message, over, why := seen.verdict(sends)
			if len(seen.pods) > 0 || !told { // even for a pod that was deleted since
				waits, told = why, len(seen.pods) > 0
			}
			switch {
			case over && why != nil:
				return result{}, waits
			case over:
				return readResult(message, r)
			}
		} else if ctx.Err() == nil {
			waits = err
		}
		select {
		case <-ctx.Done():
			return result{}, fmt.Errorf("given up: %w; last: %w", context.Cause(ctx), waits)
		case <-time.After(j.config.Poll):
		}
	}
}

// sight has a Job, nil if it is gone, and its pods, which were read after it.
type sight struct {
	job  *batchv1.Job
	pods []corev1.Pod
}

func (j *Jobs) look(ctx context.Context, job *batchv1.Job) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var seen sight
	now, err := j.client.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	err = kube.Named(now, job.Name, err)
	switch {
	case err == nil && now.UID == job.UID:
		seen.job = now
	case err != nil && !kube.Absent(err, batchv1.Resource("jobs"), job.Name):
		return seen, fmt.Errorf("look at the Job: %w", err)
	}
	pods, err := j.client.CoreV1().
		Pods(job.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(job.UID)})
	if err = kube.Versioned(pods, err); err != nil {
		return seen, fmt.Errorf("look at the Job's pods: %w", err)
	}
	for _, pod := range pods.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.UID == job.UID {
			seen.pods = append(seen.pods, pod)
		}
	}
	return seen, nil
}

// verdict reports whether the Job is over, with the answer or the reason why there is none.
// Otherwise why is the reason why it is not over yet.
func (s sight) verdict(sends bool) (message string, over bool, why error) {
	over = s.job == nil || ended(s.job)
	var messages []string
	for _, pod := range s.pods {
		switch last := terminated(&pod); {
		case last != nil && last.Message != "":
			messages = append(messages, last.Message)
			why = nil
		case last != nil:
			why = fmt.Errorf(
				"pod %s has ended without an answer: exit code %d, %s",
				pod.Name,
				last.ExitCode,
				printable(last.Reason),
			)
		default:
			where := "has no node"
			if pod.Spec.NodeName != "" {
				where = "on node " + pod.Spec.NodeName + " has not ended"
			}
			why = fmt.Errorf("pod %s %s%s", pod.Name, where, waiting(&pod))
			if sends {
				// only its kubelet knows when it is dead, whatever its phase was set to, and a pod
				// without a node may get one
				return "", false, why
			}
		}
	}
	switch {
	case len(messages) == 1 && (over || !sends):
		return messages[0], true, nil
	case len(messages) > 1 && (over || !sends):
		return "", true, fmt.Errorf("the Job has had %d pods that answered", len(messages))
	case len(messages) > 0:
		return "", false, errors.New("the Job has not ended")
	case len(s.pods) == 0 && s.job == nil:
		why = errors.New("the Job is gone")
	case len(s.pods) == 0:
		why = errors.New("the Job has no pod: its Events say why")
	}
	// Pods that are gone may still run.
	return "", over && (!sends || len(s.pods) > 0), why
}

// terminated returns how the agent's container has ended, or nil if its kubelet does not show that.
func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == containerName {
			return status.State.Terminated
		}
	}
	return nil
}

// waiting returns what a pod waits for, if known.
func waiting(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if w := status.State.Waiting; w != nil && w.Reason != "" {
			return ": " + printable(w.Reason+": "+w.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return ": " + printable(condition.Message)
		}
	}
	return ""
}

// giveUp ends the time of a Job, and waits until nothing can be sent any more: its pod is dead, or
// its window is over.
func (j *Jobs) giveUp(ctx context.Context, job *batchv1.Job, r request) {
	w, err := adopted(job, r, j.config)
	if err != nil {
		return // checked before
	}
	// The Job stays, so that a command with its ID can never be sent again. The Job controller
	// ends its pods.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": job.UID},
		{"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 1},
	})
	if err == nil {
		patching, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		_, _ = j.client.BatchV1().
			Jobs(job.Namespace).
			Patch(patching, job.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
		cancel()
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Until(w.Ends.Add(w.Skew)))
	defer cancel()
	_, _ = j.await(waiting, job, r, true)
}

// remove deletes the Job of a reading, with its pod and Secret. If that fails, the rest is deleted
// after KeepFor.
func (j *Jobs) remove(ctx context.Context, job *batchv1.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_ = j.client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(
			metav1.DeletePropagationBackground,
		), Preconditions: metav1.NewUIDPreconditions(string(job.UID)),
	})
}

// removeSecret deletes the request for a Job's pod. A pod that has not read it never starts.
func (j *Jobs) removeSecret(ctx context.Context, job *batchv1.Job) {
	name := secretOf(job)
	if !strings.HasPrefix(name, job.Name+"-") {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_ = j.client.CoreV1().Secrets(job.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}
