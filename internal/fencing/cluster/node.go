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
	// ErrNodeGone says that the node does not exist any more, or that the node of this name is
	// another one. What is to be undone on it is then undone: methods that only undo do not return
	// it.
	ErrNodeGone = errors.New("cluster: the node is gone, or another one has its name")
	// ErrContended says that others changed the node at every try. Try again later.
	ErrContended = errors.New("cluster: others change the node all the time")
)

// Config says which node it is. All fields are required.
type Config struct {
	// Name of the node.
	Name string
	// UID of the node when it was seen failing. A node of this name with another UID is never
	// touched.
	UID types.UID
	// Incident is the number of the fence's incident, at least 1. It is the value of our taints.
	Incident int64
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

// Node is a node that is fenced for an incident. It holds no state: all of it is in the cluster, so
// that a new one, in a new process, continues what the last one began. Safe for concurrent use.
type Node struct {
	client kubernetes.Interface
	config Config
}

// New returns a Node. The error names each field that is wrong.
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

// Delete deletes the Node object, for machines that do not come back. Nothing tells the cluster any
// more then that the node's workloads may run, so do it only after their release. A node that is
// gone already is no error, and one that has been registered again under the name stays.
func (n *Node) Delete(ctx context.Context, prove Proof) error {
	err := act(ctx, prove, func(ctx context.Context) error {
		return n.client.CoreV1().
			Nodes().
			Delete(ctx, n.config.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &n.config.UID}})
	})
	if apierrors.IsConflict(err) {
		// It is the UID, as far as is known; but only another UID is the end of ours.
		if _, getErr := n.get(ctx); getErr != nil {
			err = getErr
		}
	}
	if n.absent(err) || errors.Is(err, ErrNodeGone) {
		return nil
	}
	return n.wrap("delete it", err)
}

// absent says whether an error is the API server's statement that there is no node of the name.
func (n *Node) absent(err error) bool {
	return kube.Absent(err, corev1.Resource("nodes"), n.config.Name)
}

// get reads the node from the API server, not from a cache of it.
func (n *Node) get(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{})
	if n.absent(err) || err == nil && node.UID != n.config.UID {
		return nil, ErrNodeGone
	}
	return node, err
}

// operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const (
	editTries = 10
	editPause = 5 * time.Millisecond // the first; each is half as long again as the last one, and jittered
)

// edit changes the node by a JSON patch, which the API server refuses if the node is not the very
// version any more that change has seen; then it is read and changed again. No operation means that
// there is nothing to do. With prove nil no proof is needed. It returns the node as change has seen
// it last.
func (n *Node) edit(ctx context.Context, prove Proof, change func(*corev1.Node) []operation) (*corev1.Node, error) {
	pause := wait.Backoff{Duration: editPause, Factor: 1.5, Jitter: 1, Steps: editTries}
	var last error
	for range editTries {
		node, err := n.get(ctx)
		if err != nil {
			return nil, err
		}
		operations := change(node)
		if len(operations) == 0 {
			return node, nil
		}
		tests := []operation{{"test", "/metadata/uid", node.UID}}
		if node.ResourceVersion != "" { // a fake clientset has none
			tests = append(tests, operation{"test", "/metadata/resourceVersion", node.ResourceVersion})
		}
		patch, err := json.Marshal(append(tests, operations...))
		if err != nil {
			return nil, err
		}
		send := func(ctx context.Context) error {
			_, err := n.client.CoreV1().Nodes().Patch(ctx, n.config.Name, types.JSONPatchType, patch,
				metav1.PatchOptions{})
			return err
		}
		if prove != nil {
			last = act(ctx, prove, send)
		} else {
			last = ask(ctx, send)
		}
		// A failed test is answered as Invalid.
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

// wrap says which node an error is about, and what was tried.
func (n *Node) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cluster: node %s: %s: %w", n.config.Name, what, err)
}

// escape makes a key a part of a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
