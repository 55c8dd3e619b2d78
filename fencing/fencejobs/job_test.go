package fencejobs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func someJob(t *testing.T, change ...func(*Config)) (*batchv1.Job, request) {
	t.Helper()
	c := Config{Namespace: namespace, Image: "fencer:test"}
	for _, f := range change {
		f(&c)
	}
	c, err := c.complete()
	require.NoError(t, err)
	w, err := open(noon, 30*time.Second, 30*time.Second, c)
	require.NoError(t, err)
	r := newRequest(operation, switchOff, target(), w)
	job, err := newJob(r, operation+"-0123456789", c)
	require.NoError(t, err)
	return job, r
}

// A Job has one pod, which is not started again.
func TestJobRunsOnce(t *testing.T) {
	job, _ := someJob(t)
	assert.Equal(t, operation, job.Name)
	assert.Equal(t, ptr.To(int32(1)), job.Spec.Parallelism)
	assert.Equal(t, ptr.To(int32(1)), job.Spec.Completions)
	assert.Equal(t, ptr.To(int32(0)), job.Spec.BackoffLimit)
	assert.Equal(t, ptr.To(batchv1.Failed), job.Spec.PodReplacementPolicy)
	assert.Nil(t, job.Spec.PodFailurePolicy, "a pod that was evicted would be replaced")
	assert.Equal(t, ptr.To(int64(25)), job.Spec.ActiveDeadlineSeconds)
	assert.Equal(t, ptr.To(int32(3600)), job.Spec.TTLSecondsAfterFinished)
	pod := job.Spec.Template.Spec
	assert.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy)
	assert.Equal(t, ptr.To(int64(25)), pod.ActiveDeadlineSeconds)
}

// Whatever is configured, the pod keeps away from the node that is fenced, and has no rights.
func TestPodIsSafe(t *testing.T) {
	job, r := someJob(t, func(c *Config) {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		c.Pod.Labels, c.Pod.Annotations = map[string]string{"team": "power"}, map[string]string{"note": "x"}
		c.Pod.Spec = corev1.PodSpec{
			NodeSelector: map[string]string{"bmc": "reachable"},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			HostNetwork:  true, ServiceAccountName: "fencer", PriorityClassName: "system-cluster-critical",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		}
	})
	pod := job.Spec.Template.Spec
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	assert.Equal(t, []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{victim}},
	}}}, terms)
	assert.Equal(t, map[string]string{"bmc": "reachable"}, pod.NodeSelector)
	assert.Equal(t, ptr.To(false), pod.AutomountServiceAccountToken)
	assert.Equal(t, ptr.To(true), pod.SecurityContext.RunAsNonRoot)
	assert.Equal(t, ptr.To(int64(65532)), pod.SecurityContext.FSGroup, "or it could not read its request")
	assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	container := pod.Containers[0]
	assert.Equal(t, ptr.To(false), container.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, ptr.To(true), container.SecurityContext.ReadOnlyRootFilesystem)
	assert.Equal(t, []corev1.Capability{"ALL"}, container.SecurityContext.Capabilities.Drop)
	assert.Empty(t, container.Args)
	assert.Len(t, container.Env, 1)
	assert.Equal(t, "spec.nodeName", container.Env[0].ValueFrom.FieldRef.FieldPath)
	assert.Equal(t, corev1.TerminationMessageReadFile, container.TerminationMessagePolicy, "a log may be anything")
	assert.NotEmpty(t, container.Resources.Limits)
	for _, marked := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		assert.Equal(t, map[string]string{"team": "power", kindLabel: "off"}, marked)
	}
	assert.Equal(t, r.digest(), job.Annotations[requestAnnotation])
	assert.Equal(t, victim, job.Annotations[nodeAnnotation])
	assert.NotContains(t, encoded(t, job), secret)
}

// The digest says what a Job is for, and is no help to guess a password.
func TestDigest(t *testing.T) {
	_, r := someJob(t)
	same := r
	same.Window = window{}
	same.Parameters = map[string]string{"ip": "rack", "plug": victim, "password": "another"}
	assert.Equal(t, r.digest(), same.digest())
	for name, change := range map[string]func(*request){
		"id":        func(r *request) { r.ID = "x" },
		"action":    func(r *request) { r.Action = switchOn },
		"node":      func(r *request) { r.Node = "x" },
		"device":    func(r *request) { r.Device = "x" },
		"agent":     func(r *request) { r.Agent = "x" },
		"version":   func(r *request) { r.Version++ },
		"parameter": func(r *request) { r.Parameters = map[string]string{"ip": "rack", "plug": victim} },
	} {
		other := r
		change(&other)
		assert.NotEqual(t, r.digest(), other.digest(), name)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(nil, Config{})
	require.ErrorContains(t, err, "fencejobs: client: required")
	_, err = New(nil, Config{
		Namespace: "No", Image: " x", ImagePullPolicy: "Sometimes",
		Pod: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{kindLabel: "x", "c d": ""},
				Annotations: map[string]string{nodeAnnotation: "x"},
			},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"a b": ""}, ServiceAccountName: "No",
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "No"}},
				SecurityContext:  &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(0))},
				Affinity:         &corev1.Affinity{},
			},
		},
		StartWithin: -1, AnswerWithin: -1, ClockSkew: -1, Timeout: -1, Poll: -1,
		KeepFor: time.Minute + time.Millisecond,
	})
	for _, field := range []string{
		"Namespace", "Image", "ImagePullPolicy", "Pod.Spec.ServiceAccountName", "Pod.Spec.ImagePullSecrets[0]",
		"Pod.Spec.NodeSelector", "Pod.Labels", "Pod.Annotations", "Pod.Spec.SecurityContext.RunAsUser",
		"Pod: Forbidden: has a field that this package sets itself", "StartWithin", "AnswerWithin", "ClockSkew",
		"Timeout", "Poll", "KeepFor",
	} {
		assert.ErrorContains(t, err, "fencejobs: "+field)
	}
	_, err = (Config{Namespace: "a", Image: "b", Timeout: 10 * time.Second}).complete()
	assert.ErrorContains(t, err, "twice ClockSkew")
	c, err := (Config{Namespace: "a", Image: "b"}).complete()
	require.NoError(t, err)
	assert.Equal(t, []string{"/fencejob"}, c.Command)
}

// A message that is too long is cut, and the rest of the answer is not.
func TestLongAnswers(t *testing.T) {
	r := result{
		Version: version, Request: "x", Outcome: failed, Message: strings.Repeat("\x01ä", 5000), Began: noon,
		Ended: noon,
	}
	content, err := r.encode()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(content), maxResult)
	var again result
	require.NoError(t, strict(content, &again))
	assert.NotEmpty(t, again.Message)
	r.Message, r.Metadata = "", make([]byte, maxResult)
	_, err = r.encode()
	assert.Error(t, err)
}
