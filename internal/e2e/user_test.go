package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var readConfigMaps = rbacv1.PolicyRule{
	APIGroups: []string{""}, Resources: []string{"configmaps"},
	Verbs: []string{"get", "list", "watch"},
}

func userMayDoWhatWasGranted(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "grant")
	require.NoError(t, err)
	other, err := cp.Namespace(t.Context(), "grant-other")
	require.NoError(t, err)
	client := clientFor(t, cp.User("reader"))

	_, err = client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "before the grant: %v", err)

	require.NoError(t, cp.Grant(t.Context(), "reader", namespace, readConfigMaps))
	_, err = client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().ConfigMaps(other).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "another namespace: %v", err)
	err = client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "any", metav1.DeleteOptions{})
	assert.True(t, apierrors.IsForbidden(err), "another verb: %v", err)
}

func grantMayCoverTheCluster(t *testing.T, cp *e2e.ControlPlane) {
	client := clientFor(t, cp.User("cluster-reader"))
	require.NoError(t, cp.Grant(t.Context(), "cluster-reader", "", readConfigMaps))
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	assert.NoError(t, err)
}

// A manifest's RoleBinding names a ServiceAccount, and the user of that name gets the rights.
func serviceAccountIsAUser(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "account")
	require.NoError(t, err)
	admin := clientFor(t, cp.Admin())
	meta := metav1.ObjectMeta{Name: "reader"}
	_, err = admin.RbacV1().Roles(namespace).Create(t.Context(),
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{readConfigMaps}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	client := clientFor(t, cp.User("system:serviceaccount:"+namespace+":reader", "system:serviceaccounts"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		assert.NoError(c, err)
	}, patience, poll)
}

func tokenIsBoundToAPod(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "token")
	require.NoError(t, err)
	admin := clientFor(t, cp.Admin())
	meta := metav1.ObjectMeta{Name: "daemon"}
	_, err = admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			ServiceAccountName: "daemon",
			Containers:         []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, bound := range []*corev1.Pod{pod, nil} {
		config, err := cp.ServiceAccount(t.Context(), namespace, "daemon", bound)
		require.NoError(t, err)
		me, err := clientFor(t, config).AuthenticationV1().SelfSubjectReviews().
			Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "system:serviceaccount:"+namespace+":daemon", me.Status.UserInfo.Username)
		var uid authenticationv1.ExtraValue
		if bound != nil {
			uid = authenticationv1.ExtraValue{string(bound.UID)}
		}
		assert.Equal(t, uid, me.Status.UserInfo.Extra["authentication.kubernetes.io/pod-uid"])
	}
}

func kubeconfigIsAsGood(t *testing.T, cp *e2e.ControlPlane) {
	path, err := cp.Kubeconfig(cp.Admin())
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	_, err = clientFor(t, config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	assert.NoError(t, err)
}
