package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

func TestOutOfService(t *testing.T) {
	t.Parallel()
	taint := func(value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: value, Effect: effect}
	}
	for name, test := range map[string]struct {
		taints []corev1.Taint
		want   v1alpha1.TaintOwner
	}{
		"none": {nil, v1alpha1.TaintNone},
		"ours": {[]corev1.Taint{
			{Key: "other"},
			taint("bellwether-7", corev1.TaintEffectNoExecute),
		}, v1alpha1.TaintOurs},
		"an admin's": {
			[]corev1.Taint{taint("nodeshutdown", corev1.TaintEffectNoExecute)},
			v1alpha1.TaintForeign,
		},
		"one without a value": {
			[]corev1.Taint{taint("", corev1.TaintEffectNoExecute)},
			v1alpha1.TaintForeign,
		},
		"one that only begins like ours": {
			[]corev1.Taint{taint("bellwether-by-hand", corev1.TaintEffectNoExecute)},
			v1alpha1.TaintForeign,
		},
		"a sign is no incident": {
			[]corev1.Taint{taint("bellwether-+7", corev1.TaintEffectNoExecute)},
			v1alpha1.TaintForeign,
		},
		"another effect is another taint": {
			[]corev1.Taint{taint("bellwether-7", corev1.TaintEffectNoSchedule)},
			v1alpha1.TaintNone,
		},
		"another effect does not hide ours": {
			[]corev1.Taint{
				taint("x", corev1.TaintEffectNoSchedule),
				taint("bellwether-7", corev1.TaintEffectNoExecute),
			}, v1alpha1.TaintOurs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, OutOfService(&corev1.Node{Spec: corev1.NodeSpec{Taints: test.taints}}))
		})
	}
}
