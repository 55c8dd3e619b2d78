package fencejobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Labels and annotations of Jobs and pods. None of them is secret.
const (
	kindLabel         = "fencing.bellwether.dev/job" // status, off, on or metadata
	nodeAnnotation    = "fencing.bellwether.dev/node"
	deviceAnnotation  = "fencing.bellwether.dev/device"
	requestAnnotation = "fencing.bellwether.dev/request" // the digest of the request
	windowAnnotation  = "fencing.bellwether.dev/window"  // the time for sending
)

// Paths in the container. The program fencejob has the same.
const (
	containerName    = "agent"
	requestDirectory = "/run/fencejob"
	requestKey       = "request"
	// RequestPath is the file with the request of a pod.
	RequestPath = requestDirectory + "/" + requestKey
	// ResultPath is the file that the kubelet takes the pod's answer from.
	ResultPath = corev1.TerminationMessagePathDefault
	// NodeEnv names the variable that has the name of the node that the pod runs on.
	NodeEnv = "NODE_NAME"
)

// endGrace is the time for a deleted pod to kill its agent, in seconds.
const endGrace = 5

// newJob returns the Job for a request. It mounts the Secret with this name.
func newJob(r request, secret string, c Config) (*batchv1.Job, error) {
	window, err := json.Marshal(r.Window)
	if err != nil {
		return nil, err
	}
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, c.Pod.Labels)
	maps.Copy(annotations, c.Pod.Annotations)
	labels[kindLabel] = string(r.Action)
	annotations[nodeAnnotation], annotations[deviceAnnotation] = r.Node, r.Device
	marks := maps.Clone(annotations)
	marks[requestAnnotation], marks[windowAnnotation] = r.digest(), string(window)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: r.ID, Labels: labels, Annotations: marks},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(1)), Completions: ptr.To(int32(1)), BackoffLimit: ptr.To(int32(0)),
			PodReplacementPolicy:    ptr.To(batchv1.Failed),
			ActiveDeadlineSeconds:   ptr.To(int64(math.Ceil(r.Window.Ends.Sub(r.Window.Opens).Seconds()))),
			TTLSecondsAfterFinished: ptr.To(int32(c.KeepFor / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       podSpec(r, secret, c),
			},
		},
	}, nil
}

func podSpec(r request, secret string, c Config) corev1.PodSpec {
	spec, user := *c.Pod.Spec.DeepCopy(), user(c.Pod)
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.ActiveDeadlineSeconds = ptr.To(int64(math.Ceil(r.Window.Ends.Sub(r.Window.Opens).Seconds())))
	spec.TerminationGracePeriodSeconds = ptr.To(int64(endGrace))
	spec.AutomountServiceAccountToken, spec.EnableServiceLinks = ptr.To(false), ptr.To(false)
	spec.Affinity = awayFrom(r.Node)
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(user), RunAsGroup: ptr.To(user), FSGroup: ptr.To(user),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers = []corev1.Container{{
		Name: containerName, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Command: c.Command,
		Resources: c.Resources,
		Env: []corev1.EnvVar{
			{
				Name:      NodeEnv,
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}},
			},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Privileged:   ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		TerminationMessagePath: ResultPath, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "request", MountPath: requestDirectory, ReadOnly: true},
			{Name: "tmp", MountPath: "/tmp"}, // some agents need one
		},
	}}
	spec.Volumes = []corev1.Volume{
		// Readable for the group, which the agent's user belongs to.
		{
			Name: "request",
			VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(int32(0o440))},
			},
		},
		{
			Name: "tmp",
			VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{
					Medium:    corev1.StorageMediumMemory,
					SizeLimit: ptr.To(resource.MustParse("16Mi")),
				},
			},
		},
	}
	return spec
}

// awayFrom keeps a pod off a node by its name, because labels can be missing or wrong. It returns
// nil without a node.
func awayFrom(node string) *corev1.Affinity {
	if node == "" {
		return nil
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}},
			}}},
		}},
	}
}

func smallResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("32Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
}

// newSecret passes a request to the pod of a Job, and is deleted with the Job.
func newSecret(r request, job *batchv1.Job) (*corev1.Secret, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return nil, errors.New("the parameters cannot be encoded")
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: secretOf(job), Labels: job.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job,
				batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Immutable: ptr.To(true),
		Data:      map[string][]byte{requestKey: content},
	}, nil
}

// secretOf returns the name of the Secret that the pod of a Job waits for.
func secretOf(job *batchv1.Job) string {
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.Name == "request" && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}
	return ""
}

// ErrForeign is returned if a Job with the name of the operation was made for something else.
var ErrForeign = errors.New("fencejobs: a Job of this name was made for something else")

// adopted returns the window of an existing Job that was made for the same request.
func adopted(job *batchv1.Job, r request, c Config) (window, error) {
	foreign := func(why string) (window, error) {
		return window{}, fmt.Errorf("%w: %s/%s: %s", ErrForeign, job.Namespace, job.Name, why)
	}
	var w window
	switch {
	case job.Annotations[requestAnnotation] != r.digest():
		return foreign("it is about " + string(printable(job.Annotations[nodeAnnotation])) + ", or another command")
	case job.DeletionTimestamp != nil:
		return foreign("it is being deleted")
	case !strings.HasPrefix(secretOf(job), job.Name+"-"):
		return foreign("its pod does not read a request of its own")
	case strict([]byte(job.Annotations[windowAnnotation]), &w) != nil || w.Skew != c.ClockSkew ||
		w.Ends.Before(w.Closes) || !w.Closes.After(w.Opens):
		return foreign("it does not say when it may send something")
	case w.Ends.Sub(r.Window.Ends) > c.ClockSkew+c.Timeout:
		return foreign("it may send something long after this call")
	}
	return w, nil
}
