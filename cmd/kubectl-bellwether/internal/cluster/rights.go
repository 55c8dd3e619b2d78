package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Right is the right that a request needs.
type Right = kube.Right

func right(verb string, resource schema.GroupResource, namespace string) Right {
	return Right{Verb: verb, Resource: resource, Namespace: namespace}
}

// MissingError names missing rights.
type MissingError struct{ Rights []Right }

// Error names all of them.
func (e *MissingError) Error() string {
	lines := make([]string, len(e.Rights))
	for i, r := range e.Rights {
		lines[i] = "  " + r.String()
	}
	slices.Sort(lines)
	return "kubectl-bellwether: these rights are missing, so not everything could be done:\n" +
		strings.Join(slices.Compact(lines), "\n")
}

// Rights collects the rights that were missing. It is safe for concurrent use.
type Rights struct {
	mu      sync.Mutex
	missing []Right
}

// refused takes the error of a request, and reports whether the user is not allowed to send it.
func (r *Rights) refused(err error, right Right) bool {
	if !kube.Forbidden(err) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.missing, right) {
		r.missing = append(r.missing, right)
	}
	return true
}

// Err returns a [MissingError], or nil if no right was missing.
func (r *Rights) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing) == 0 {
		return nil
	}
	return &MissingError{slices.Clone(r.missing)}
}

// review asks the API server which of these rights the user lacks, before a command that writes
// begins. It changes nothing. A right that cannot be reviewed counts as missing.
func review(ctx context.Context, client kubernetes.Interface, rights []Right) ([]Right, error) {
	var missing []Right
	for _, r := range rights {
		allowed, err := kube.HasRight(ctx, client, r)
		if err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: ask for the right to %s: %w", r, err)
		}
		if !allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}
