package fencejobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Config configures [New]. All controllers that may lead must have the same Config.
type Config struct {
	// Namespace of the Jobs. Use it for nothing else, because a user who may create Jobs or Pods in
	// it, or read its Secrets, can switch machines. Required.
	Namespace string
	// Image has the fence agents and the program fencejob, in the version of this package.
	// Required.
	Image string
	// Command starts the program fencejob. Default: /fencejob.
	Command []string

	// ImagePullPolicy of the container. Default: that of Kubernetes.
	ImagePullPolicy corev1.PullPolicy
	// Resources of the container. Default: requests of 10m and 32Mi, and a limit of 128Mi.
	Resources corev1.ResourceRequirements

	// Pod has what pods need in this cluster:
	//   - Labels and Annotations, which Jobs also get.
	//   - Spec.NodeSelector and Tolerations for the nodes from which the devices can be reached. A
	//     pod never runs on the node that it is about.
	//   - Spec.PriorityClassName. Consider system-cluster-critical, because nothing can be fenced
	//     without capacity for the pods.
	//   - Spec.HostNetwork, for devices that can be reached only from the network of a node, with
	//     DNSPolicy, DNSConfig and HostAliases.
	//   - Spec.SecurityContext.RunAsUser, the user ID of the agents. Default: 65532; never root.
	//   - Spec.ImagePullSecrets, ServiceAccountName, RuntimeClassName and SchedulerName. Pods get no
	//     token of the ServiceAccount and need no permissions.
	//
	// This package sets everything else. Another field is an error.
	Pod corev1.PodTemplateSpec

	// StartWithin is how long a pod may take to send a command or to read. It covers the API
	// server, the Job controller, the scheduler and the kubelet. Nothing is sent later. The node
	// was checked before, so a node that returns within this time loses its power nevertheless.
	// Default: 10 s.
	StartWithin time.Duration
	// AnswerWithin is the maximum age of an answer when it arrives. An older answer is no reading.
	// Default: 5 s.
	AnswerWithin time.Duration
	// ClockSkew is the maximum difference between the clocks of any two nodes. Settling times rely
	// on it; see the package documentation. A call must have more than twice this time. Default:
	// 5 s.
	ClockSkew time.Duration
	// Timeout of readings whose context has no deadline, and of commands without one. Those of
	// package fencing have one: fencing.Config.CommandTimeout, or command_timeout of a template.
	// Default: 30 s.
	Timeout time.Duration
	// Poll is the interval at which a running Job is read, with two requests. Default: 250 ms.
	Poll time.Duration
	// KeepFor is how long the Job of a command is kept after its end, for inspection. Jobs of
	// readings are deleted at once. Whole seconds. Default: 1 h.
	KeepFor time.Duration

	// Logger gets an entry at level Debug for each Job. If nil, nothing is logged.
	Logger *zap.Logger
}

// maxName is the maximum length of a Job's name. It leaves room for what Kubernetes appends.
const maxName = 52

// complete returns c with its defaults, or all errors in it.
func (c Config) complete() (Config, error) {
	var wrong []error
	bad := func(field, rule string, got any) {
		wrong = append(wrong, fmt.Errorf("fencejobs: %s: %s (got %v)", field, rule, got))
	}
	if len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		bad("Namespace", "must be the name of a namespace", fmt.Sprintf("%q", c.Namespace))
	}
	if c.Image == "" || strings.TrimSpace(c.Image) != c.Image {
		bad("Image", "must be the name of an image", fmt.Sprintf("%q", c.Image))
	}
	c.Command = slices.Clone(c.Command)
	if len(c.Command) == 0 {
		c.Command = []string{"/fencejob"}
	}
	if !slices.Contains(
		[]corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever},
		c.ImagePullPolicy,
	) {
		bad("ImagePullPolicy", "must be Always, IfNotPresent or Never", fmt.Sprintf("%q", c.ImagePullPolicy))
	}
	for _, err := range validatePod(c.Pod) {
		wrong = append(wrong, fmt.Errorf("fencejobs: %w", err))
	}
	for _, d := range []struct {
		field     string
		value     *time.Duration
		otherwise time.Duration
		least     time.Duration
	}{
		{"StartWithin", &c.StartWithin, 10 * time.Second, time.Second},
		{"AnswerWithin", &c.AnswerWithin, 5 * time.Second, time.Second},
		{"ClockSkew", &c.ClockSkew, 5 * time.Second, 0},
		{"Timeout", &c.Timeout, 30 * time.Second, time.Second},
		{"Poll", &c.Poll, 250 * time.Millisecond, 10 * time.Millisecond},
		{"KeepFor", &c.KeepFor, time.Hour, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
		if *d.value < d.least {
			bad(d.field, fmt.Sprintf("must be at least %v", d.least), *d.value)
		}
	}
	if c.Timeout <= 2*c.ClockSkew {
		bad("Timeout", fmt.Sprintf("must be more than twice ClockSkew, which is %v", c.ClockSkew), c.Timeout)
	}
	if c.KeepFor%time.Second != 0 {
		bad("KeepFor", "must be whole seconds", c.KeepFor)
	}
	if len(wrong) > 0 {
		return c, errors.Join(wrong...)
	}
	c.Pod = *c.Pod.DeepCopy()
	if c.Resources.Requests == nil && c.Resources.Limits == nil {
		c.Resources = smallResources()
	}
	c.Resources = *c.Resources.DeepCopy()
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c, nil
}
