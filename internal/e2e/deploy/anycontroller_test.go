package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const ofAnyController = "complete/any-controller"

// The API server accepts the Pods that the component makes, in a namespace of the Pod Security level
// restricted.
func TestAnyControllerIsApplied(t *testing.T) {
	b := render(t, ofAnyController)
	b.apply(t)
	d := b.deployment(t)
	requireRestricted(t, d.Namespace)
	require.NoError(t, createPod(t, d.Namespace, d.Spec.Template))
	b.apply(t)
}

// The component puts bellwether before the command, and leaves the rest of the container as it is.
func TestAnyControllerKeepsTheContainer(t *testing.T) {
	before, after := render(t, ofAnyController+"/controller").deployment(t), render(t, ofAnyController).deployment(t)
	assert.Equal(t, about(before), about(after))
	assert.Equal(t, before.Spec.Selector, after.Spec.Selector)
	was, is := before.Spec.Template.Spec.Containers[0], after.Spec.Template.Spec.Containers[0]
	end := slices.Index(is.Command, "--")
	require.Positive(t, end)
	assert.Equal(t, []string{"/opt/bellwether/bellwether", "run"}, is.Command[:2])
	assert.Contains(t, is.Command[:end], "--ring="+after.Name)
	assert.Equal(t, was.Command, is.Command[end+1:])
	for _, probe := range []*corev1.Probe{is.LivenessProbe, is.ReadinessProbe, is.StartupProbe} {
		require.NotNil(t, probe)
		assert.Contains(t, is.Command[:end], "--health-address=:"+probe.HTTPGet.Port.String())
	}
	is.Command, is.Env, is.VolumeMounts = was.Command, was.Env, was.VolumeMounts
	is.LivenessProbe, is.ReadinessProbe, is.StartupProbe = nil, nil, nil
	assert.Equal(t, was, is)
}

// A container that has variables, mounts and probes keeps the first two.
func TestAnyControllerAddsToWhatAContainerHas(t *testing.T) {
	files := repository(t)
	require.NoError(t, files.WriteFile("/deploy/user/kustomization.yaml", []byte(`
resources: [deployment.yaml]
components: [../any-controller]
`)))
	require.NoError(t, files.WriteFile("/deploy/user/deployment.yaml", []byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: operators}
spec:
  selector: {matchLabels: {app: manager}}
  template:
    metadata:
      labels: {app: manager}
      annotations: {example.com/a: b}
    spec:
      serviceAccountName: account
      terminationGracePeriodSeconds: 10
      initContainers:
      - {name: first, image: first}
      containers:
      - name: any
        image: manager
        command: [/manager]
        args: [--its-flag]
        env: [{name: A, value: b}]
        volumeMounts: [{name: config, mountPath: /etc/config}]
        livenessProbe: {exec: {command: [alive]}, initialDelaySeconds: 60}
      - {name: beside, image: beside}
      volumes:
      - {name: config, emptyDir: {}}
`)))
	b := parse(t, files, "/deploy/user")
	spec := b.deployment(t).Spec.Template.Spec
	require.Len(t, spec.Containers, 2)
	c := spec.Containers[0]
	assert.Equal(t, []string{"--", "/manager"}, c.Command[len(c.Command)-2:])
	assert.Equal(t, []string{"--its-flag"}, c.Args)
	assert.Contains(t, c.Env, corev1.EnvVar{Name: "A", Value: "b"})
	assert.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/etc/config"})
	assert.Nil(t, c.LivenessProbe.Exec)
	assert.Equal(t, corev1.Container{Name: "beside", Image: "beside"}, spec.Containers[1])
	assert.Equal(t, "b", b.deployment(t).Spec.Template.Annotations["example.com/a"])
	requireWayIn(t, b.deployment(t))
	requireRing(t, b)
}

// What bellwether and the program look for is where the command says.
func TestAnyControllerHasItsFiles(t *testing.T) {
	b := render(t, ofAnyController)
	requireWayIn(t, b.deployment(t))
	requireRing(t, b)
}

func requireWayIn(t testing.TB, d appsv1.Deployment) {
	t.Helper()
	const ofProgram = "/var/run/secrets/kubernetes.io/serviceaccount"
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	mounts, volumes, variables := map[string]string{}, map[string]corev1.Volume{}, map[string]corev1.EnvVar{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = m.Name
	}
	for _, v := range spec.Volumes {
		volumes[v.Name] = v
	}
	for _, v := range c.Env {
		variables[v.Name] = v
	}
	assert.Contains(t, c.Command, "--service-account="+ofProgram)
	assert.NotNil(t, volumes[mounts[ofProgram]].EmptyDir, "the program must not find the Pod's own token")
	assert.NotNil(t, volumes[mounts[variables["TMPDIR"].Value]].EmptyDir)
	credentials := volumes[mounts["/var/run/secrets/bellwether"]].Projected
	require.NotNil(t, credentials)
	assert.Len(t, credentials.Sources, 3)
	assert.Contains(t, c.Command, "--credentials=/var/run/secrets/bellwether")
	for _, argument := range c.Command {
		if _, after, found := strings.Cut(argument, "$("); found {
			name, _, _ := strings.Cut(after, ")")
			require.Contains(t, variables, name)
			assert.NotNil(t, variables[name].ValueFrom.FieldRef)
		}
	}
	copies := spec.InitContainers[slices.IndexFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == "bellwether"
	})]
	assert.Equal(t, c.Command[0], copies.Command[2]+"/bellwether")
	assert.NotNil(t, volumes[mounts[copies.Command[2]]].EmptyDir)
	assert.EqualValues(t, 50, *spec.TerminationGracePeriodSeconds)
}

// requireRing requires that the rights are those of the Deployment's account, on its ring.
func requireRing(t testing.TB, b bundle) {
	t.Helper()
	d := b.deployment(t)
	account := rbacv1.Subject{
		Kind: "ServiceAccount", Namespace: d.Namespace, Name: d.Spec.Template.Spec.ServiceAccountName,
	}
	name, clusterName := "bellwether:"+d.Name, "bellwether:"+d.Namespace+":"+d.Name
	roles := all[rbacv1.Role](t, b, "Role")
	require.Len(t, roles, 1)
	assert.Equal(t, name, roles[0].Name)
	assert.Equal(t, d.Namespace, roles[0].Namespace)
	assert.Equal(t, []string{d.Name + ".ring.bellwether.dev"}, roles[0].Rules[0].ResourceNames)
	bindings := all[rbacv1.RoleBinding](t, b, "RoleBinding")
	require.Len(t, bindings, 1)
	assert.Equal(t, name, bindings[0].Name)
	assert.Equal(t, name, bindings[0].RoleRef.Name)
	assert.Equal(t, d.Namespace, bindings[0].Namespace)
	assert.Equal(t, []rbacv1.Subject{account}, bindings[0].Subjects)
	assert.True(t, slices.ContainsFunc(all[rbacv1.ClusterRole](t, b, "ClusterRole"), func(r rbacv1.ClusterRole) bool {
		return r.Name == clusterName
	}))
	clusterBindings := all[rbacv1.ClusterRoleBinding](t, b, "ClusterRoleBinding")
	i := slices.IndexFunc(clusterBindings, func(b rbacv1.ClusterRoleBinding) bool { return b.Name == clusterName })
	require.NotEqual(t, -1, i)
	assert.Equal(t, clusterName, clusterBindings[i].RoleRef.Name)
	assert.Equal(t, []rbacv1.Subject{account}, clusterBindings[i].Subjects)
}
