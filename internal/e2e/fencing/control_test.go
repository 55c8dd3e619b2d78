package fencing_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// control runs a controller in this process until the test ends. Its requests pass through a hook,
// so the test can act at the moment of any of them. It has checked the machine when this returns.
func (l *lab) control(hook func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	l.t.Helper()
	config := l.user()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) { return hook(ownRecord(r, l.machine), next) })
	})
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(l.t, err)
	dyn, err := dynamic.NewForConfig(config)
	require.NoError(l.t, err)
	selector,
		err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{l.label: "true"}})
	require.NoError(l.t, err)
	controller, err := fencing.New(kube, dyn, fencing.Config{
		Namespace: l.namespace, Node: spareNode, Leadership: always{}, Agents: local{l.rack},
		Nodes: api.NodeSelector{Selector: selector},
		Limits: api.Limits{
			Observation: time.Second, CoolDown: time.Second, MaxRepeats: 1000,
			MaxStarts: 1000,
		},
		DetachTimeout: 5 * time.Second, RestartDelay: time.Second, CommandTimeout: 2 * time.Second,
	})
	require.NoError(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(l.t, controller.Run(ctx)) })
	l.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	l.checked()
}

// ownRecord changes a request for all records into one for that of a node: those of other tests are
// none of its business.
func ownRecord(r *http.Request, node string) *http.Request {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/nodefences") {
		return r
	}
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("fieldSelector", "metadata.name="+v1alpha1.Name(node))
	r.URL.RawQuery = query.Encode()
	return r
}

// bodyOf returns what a request says, which it still does then.
func bodyOf(r *http.Request) (string, error) {
	if r.Body == nil {
		return "", nil
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(content))
	return string(content), nil
}

// always is a leadership that does not end.
type always struct{}

func (always) Remaining() time.Duration { return time.Minute }

// local are the devices of a controller in this process.
type local struct{ *fencingtest.Rack }

func (local) Metadata(_ context.Context, name string) (agent.Metadata, error) {
	if name != "fence_rack" {
		return agent.Metadata{}, fmt.Errorf("there is no agent %q", name)
	}
	return agent.Metadata{
		Name: name, OffIsProof: true, MinSettle: time.Second,
		Parameters: []agent.ParameterSpec{
			{Name: "ip", Type: agent.TypeString, Required: true},
			{Name: "plug", Type: agent.TypeString, Required: true},
		},
	}, nil
}
