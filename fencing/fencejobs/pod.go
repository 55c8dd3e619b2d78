package fencejobs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultUser is the user ID of agents.
const defaultUser = 65532

// user returns the configured user ID of the agents.
func user(pod corev1.PodTemplateSpec) int64 {
	if c := pod.Spec.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	return defaultUser
}

// validatePod returns an error for each rule of [Config].Pod that pod breaks.
func validatePod(pod corev1.PodTemplateSpec) field.ErrorList {
	at := field.NewPath("Pod")
	spec := at.Child("Spec")
	errs := metav1validation.ValidateLabels(pod.Labels, at.Child("Labels"))
	errs = append(errs, metav1validation.ValidateLabels(pod.Spec.NodeSelector, spec.Child("NodeSelector"))...)
	for _, own := range []string{kindLabel, requestAnnotation, nodeAnnotation, deviceAnnotation, windowAnnotation} {
		if _, set := pod.Labels[own]; set {
			errs = append(errs, field.Forbidden(at.Child("Labels").Key(own), "this package sets it"))
		}
		if _, set := pod.Annotations[own]; set {
			errs = append(errs, field.Forbidden(at.Child("Annotations").Key(own), "this package sets it"))
		}
	}
	for i, secret := range pod.Spec.ImagePullSecrets {
		if len(validation.IsDNS1123Subdomain(secret.Name)) > 0 {
			errs = append(errs, field.Invalid(spec.Child("ImagePullSecrets").Index(i), secret.Name,
				"must be the name of a Secret"))
		}
	}
	if name := pod.Spec.ServiceAccountName; name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		errs = append(errs, field.Invalid(spec.Child("ServiceAccountName"), name,
			"must be the name of a ServiceAccount"))
	}
	if id := user(pod); id <= 0 {
		errs = append(errs, field.Invalid(spec.Child("SecurityContext", "RunAsUser"), id,
			"must be the number of a user, and not root's"))
	}
	if !equality.Semantic.DeepEqual(pod, settable(pod)) {
		errs = append(errs, field.Forbidden(at, "has a field that this package sets itself"))
	}
	return errs
}

// settable returns pod with only those fields that a user may set.
func settable(pod corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	is := pod.Spec
	s := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations},
		Spec: corev1.PodSpec{
			NodeSelector: is.NodeSelector, Tolerations: is.Tolerations, PriorityClassName: is.PriorityClassName,
			HostNetwork: is.HostNetwork, DNSPolicy: is.DNSPolicy, DNSConfig: is.DNSConfig, HostAliases: is.HostAliases,
			ImagePullSecrets: is.ImagePullSecrets, ServiceAccountName: is.ServiceAccountName,
			RuntimeClassName: is.RuntimeClassName, SchedulerName: is.SchedulerName,
		},
	}
	if is.SecurityContext != nil {
		s.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: is.SecurityContext.RunAsUser}
	}
	return s
}
