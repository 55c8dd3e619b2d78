package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// grantPoll is how often Grant asks whether the API server honours the grant. Usually it does at
// once, by its own watch.
const grantPoll = 20 * time.Millisecond

// Admin returns the configuration of a client that may do everything. It is a copy: change it at
// will. Clients are not throttled.
func (c *ControlPlane) Admin() *rest.Config {
	return c.User("admin", "system:masters")
}

// User returns the configuration of a client with this name and these groups: a certificate that
// the API server trusts, no rights until granted. It is a copy; the certificate is the same for the
// same name and groups. Clients are not throttled. The name
// "system:serviceaccount:<namespace>:<name>" is what RBAC and the audit log take for that service
// account.
func (c *ControlPlane) User(name string, groups ...string) *rest.Config {
	c.usersMu.Lock()
	defer c.usersMu.Unlock()
	key := fmt.Sprintf("%q %q", name, groups)
	config, ok := c.users[key]
	if !ok {
		certificate, private, err := c.pki.client(name, groups)
		if err != nil {
			// Only a broken Go runtime fails to sign with a key it has just made.
			panic(err)
		}
		config = &rest.Config{
			Host:            "https://" + c.apiPort.address(),
			TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca, CertData: certificate, KeyData: private},
			QPS:             -1,
			UserAgent:       "e2e/" + name,
		}
		c.users[key] = config
	}
	return rest.CopyConfig(config)
}

// ServiceAccount returns the configuration of a client with a token of this service account, as the
// kubelet mounts it: bound to the Pod, which has to exist and to run as that account; with pod nil,
// bound to none. Clients are not throttled.
func (c *ControlPlane) ServiceAccount(ctx context.Context, namespace, name string, pod *corev1.Pod) (*rest.Config,
	error,
) {
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("e2e: create token of service account %s/%s: %w", namespace, name, err)
	}
	return &rest.Config{
		Host:            "https://" + c.apiPort.address(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca},
		BearerToken:     token.Status.Token,
		QPS:             -1,
		UserAgent:       "e2e/" + name,
	}, nil
}

// Grant allows the user what the rules say, in the namespace by a Role and a RoleBinding, or with
// namespace "" in the whole cluster by a ClusterRole and a ClusterRoleBinding. It returns when the
// API server honours them. Grants add up.
func (c *ControlPlane) Grant(ctx context.Context, user, namespace string, rules ...rbacv1.PolicyRule) error {
	var err error
	if namespace == "" {
		err = c.grantCluster(ctx, user, rules)
	} else {
		err = c.grantNamespace(ctx, user, namespace, rules)
	}
	if err != nil {
		return fmt.Errorf("e2e: grant to %s: %w", user, err)
	}
	for _, rule := range rules {
		if err := c.waitAllowed(ctx, user, namespace, rule); err != nil {
			return fmt.Errorf("e2e: grant to %s: wait until it is honoured: %w", user, err)
		}
	}
	return nil
}

var grantMeta = metav1.ObjectMeta{GenerateName: "grant-"}

func (c *ControlPlane) grantCluster(ctx context.Context, user string, rules []rbacv1.PolicyRule) error {
	rbac, options := c.client.RbacV1(), metav1.CreateOptions{}
	role, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: grantMeta, Rules: rules}, options)
	if err != nil {
		return err
	}
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: grantMeta,
		Subjects:   grantSubjects(user),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, options)
	return err
}

func (c *ControlPlane) grantNamespace(ctx context.Context, user, namespace string, rules []rbacv1.PolicyRule) error {
	rbac, options := c.client.RbacV1(), metav1.CreateOptions{}
	role, err := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: grantMeta, Rules: rules}, options)
	if err != nil {
		return err
	}
	_, err = rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: grantMeta,
		Subjects:   grantSubjects(user),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}, options)
	return err
}

func grantSubjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

// waitAllowed returns when the user may do the first thing the rule allows: a role takes effect as
// a whole.
func (c *ControlPlane) waitAllowed(ctx context.Context, user, namespace string, rule rbacv1.PolicyRule) error {
	if len(rule.Verbs) == 0 || len(rule.APIGroups) == 0 || len(rule.Resources) == 0 {
		return nil // about URLs, not resources
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource,
			Subresource: subresource,
		},
	}}
	if len(rule.ResourceNames) > 0 {
		review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	return wait.PollUntilContextCancel(ctx, grantPoll, true, func(ctx context.Context) (bool, error) {
		answer, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// Namespace creates a namespace of its own for a test and returns its name, which starts with
// prefix.
func (c *ControlPlane) Namespace(ctx context.Context, prefix string) (string, error) {
	namespace, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("e2e: create namespace: %w", err)
	}
	return namespace.Name, nil
}

// Kubeconfig writes the configuration to a new kubeconfig file in the control plane's directory,
// for a process. Of a rest.Config it keeps the host and the certificates; a kubeconfig has no place
// for rate limits.
func (c *ControlPlane) Kubeconfig(config *rest.Config) (path string, err error) {
	file, err := os.CreateTemp(c.Dir, "kubeconfig-*.yaml")
	if err != nil {
		return "", fmt.Errorf("e2e: write kubeconfig: %w", err)
	}
	const name = "e2e"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err == nil {
		_, err = file.Write(content)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("e2e: write kubeconfig: %w", err)
	}
	return file.Name(), nil
}

func newClient(config *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("e2e: create client: %w", err)
	}
	return client, nil
}
