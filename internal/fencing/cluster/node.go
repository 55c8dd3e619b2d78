package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrNodeGone is returned if the node does not exist, or another node has its name. Changes to
	// undo are then undone, so methods that only undo do not return it.
	ErrNodeGone = errors.New("cluster: the node is gone, or another one has its name")
	// ErrContended is returned if others changed the node at every try. Try again later.
	ErrContended = errors.New("cluster: others change the node all the time")
)

// Config identifies the node. All fields but Seen are required.
type Config struct {
	// Name of the node.
	Name string
	// UID of the node when it was seen failing. A node with another UID is never touched.
	UID types.UID
	// Incident is the number of the fence's incident, from 1. It is the value of our taints.
	Incident int64
	// Seen is a version of the node that the caller has read. A change starts from it, so that its
	// proof is not older by another request. If nil, each change reads the node.
	Seen *corev1.Node
}

func (c Config) validate() error {
	var errs []error
	for _, rule := range validation.IsDNS1123Subdomain(c.Name) {
		errs = append(errs, fmt.Errorf("cluster: Name: %s (got %q)", rule, c.Name))
	}
	if c.UID == "" {
		errs = append(errs, errors.New(`cluster: UID: required (got "")`))
	}
	if c.Incident < 1 {
		errs = append(errs, fmt.Errorf("cluster: Incident: at least 1 (got %d)", c.Incident))
	}
	return errors.Join(errs...)
}

// Node is a node that is fenced in an incident. All its state is in the cluster, so a new process
// continues with a new Node. It is safe for concurrent use.
type Node struct {
	client kubernetes.Interface
	config Config
}

// New returns a Node. The error names each invalid field.
func New(client kubernetes.Interface, config Config) (*Node, error) {
	err := config.validate()
	if client == nil {
		err = errors.Join(errors.New("cluster: client: required (got nil)"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Node{client: client, config: config}, nil
}

// Delete deletes the Node object, for machines that do not come back. Do it only after the release,
// because without the object nothing shows that the node's workloads may still run. A missing node
// is not an error. A node that has registered again under the name stays.
func (n *Node) Delete(ctx context.Context, prove Proof) error {
	err := act(ctx, prove, func(ctx context.Context) error {
		return n.client.CoreV1().
			Nodes().
			Delete(ctx, n.config.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.config.UID}})
	})
	if apierrors.IsConflict(err) {
		// Probably another UID. Only that proves the end of ours.
		if _, getErr := n.get(ctx); getErr != nil {
			err = getErr
		}
	}
	if n.absent(err) || errors.Is(err, ErrNodeGone) {
		return nil
	}
	return n.wrap("delete it", err)
}

// absent reports whether the API server has stated that there is no node of the name.
func (n *Node) absent(err error) bool {
	return kube.Absent(err, corev1.Resource("nodes"), n.config.Name)
}

// get reads the node consistently.
func (n *Node) get(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{})
	err = kube.Named(node, n.config.Name, err)
	if n.absent(err) || err == nil && node.UID != n.config.UID {
		return nil, ErrNodeGone
	}
	return node, err
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const (
	editTries = 10
	editPause = 5 * time.Millisecond // the first pause; they grow by a half each, with jitter
)

// edit changes the node by a JSON patch that fails if the node has changed since change read it;
// then it reads and changes the node again. Without operations it sends nothing. A nil prove
// requires no proof. It returns the last node that change has seen.
func (n *Node) edit(ctx context.Context, prove Proof, change func(*corev1.Node) []operation) (*corev1.Node, error) {
	pause := wait.Backoff{Duration: editPause, Factor: 1.5, Jitter: 1, Steps: editTries}
	var last error
	seen := n.config.Seen
	for range editTries {
		node, operations, err := n.plan(ctx, seen, change)
		if err != nil || len(operations) == 0 {
			return node, err
		}
		seen = nil
		tests := []operation{{"test", "/metadata/uid", node.UID}}
		if node.ResourceVersion != "" { // a fake clientset has none
			tests = append(tests, operation{"test", "/metadata/resourceVersion", node.ResourceVersion})
		}
		patch, err := json.Marshal(append(tests, operations...))
		if err != nil {
			return nil, err
		}
		send := func(ctx context.Context) error {
			answer, err := n.client.CoreV1().Nodes().Patch(ctx, n.config.Name, types.JSONPatchType, patch,
				metav1.PatchOptions{})
			return kube.Named(answer, n.config.Name, err)
		}
		if prove != nil {
			last = act(ctx, prove, send)
		} else {
			last = ask(ctx, send)
		}
		// The answer to a failed test is Invalid.
		if !apierrors.IsConflict(last) && !apierrors.IsInvalid(last) {
			return node, last
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause.Step()):
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrContended, last)
}

// plan returns the operations of a change, and the version that they are for: seen if that needs
// any, because they fail if it is old, otherwise a new reading.
func (n *Node) plan(
	ctx context.Context,
	seen *corev1.Node,
	change func(*corev1.Node) []operation,
) (*corev1.Node, []operation, error) {
	if seen != nil && seen.UID == n.config.UID && seen.ResourceVersion != "" {
		if operations := change(seen); len(operations) > 0 {
			return seen, operations, nil
		}
	}
	node, err := n.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	return node, change(node), nil
}

// wrap adds the node and the attempted action to an error.
func (n *Node) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cluster: node %s: %s: %w", n.config.Name, what, err)
}

// escape escapes a key for a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
