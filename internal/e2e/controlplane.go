package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startTimeout bounds the start after the build. The start takes 3 s on 2 idle cores.
const startTimeout = 2 * time.Minute

// Options says what a control plane has besides etcd and kube-apiserver. The zero value is fine.
type Options struct {
	// ControllerManager runs kube-controller-manager: garbage collection, node lifecycle,
	// workloads.
	ControllerManager bool
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// Nodes names the nodes to create. Each has a KWOK process of its own that makes it ready,
	// renews its lease and runs its Pods in pretence. While the process is paused the node is lost:
	// with the controller manager it becomes NotReady within about 10 s.
	Nodes []string
	// Groups names nodes that have one KWOK process together, by the name that their group has
	// instead of a node's: they are lost at once. A node that has the label [DarkLabel] has no
	// process, whatever becomes of that of its group: so a machine is lost, and comes back, by
	// itself.
	Groups map[string][]string
	// Address is an IPv4 address of this machine at which the API server is reached, too, not only
	// at 127.0.0.1: for real kubelets, see package realnode. It then listens on all addresses, knows
	// the users that kubelets are, and gives Pods their tokens. Default: none.
	Address string
	// AuditPolicy is the audit policy of the API server, as a file. Default: metadata of all
	// requests, when they are over.
	AuditPolicy string
	// APIServer are more flags of the API server, such as --watch-cache-sizes=configmaps#0.
	APIServer []string
	// Progress gets the progress of a build of the control plane, see [Binaries]. Default
	// os.Stderr.
	Progress io.Writer
}

// ControlPlane is a running control plane. Safe for concurrent use.
type ControlPlane struct {
	// Etcd and APIServer are always there, the other two if asked for.
	Etcd, APIServer              *Process
	ControllerManager, Scheduler *Process
	// Dir holds everything the control plane writes: <process>.log, audit.log, etcd's data. Close
	// removes it.
	Dir string

	group    *Group
	bin      Bin
	pki      *pki
	client   kubernetes.Interface
	nodes    map[string]*Process
	etcdPort *port
	apiPort  *port
	ports    []*port // all of them

	audit auditLog

	usersMu sync.Mutex
	users   map[string]*rest.Config

	programsMu sync.Mutex
	programs   map[string]string

	proxiesMu sync.Mutex
	proxies   []*Proxy
}

// Start starts a control plane that ends with the test. If the test fails, the logs stay and their
// directory is logged.
func Start(t testing.TB, options Options) *ControlPlane {
	t.Helper()
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Logf("logs of the control plane: %s", c.Dir)
			return
		}
		if err := os.RemoveAll(c.Dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// New starts a control plane and returns when it is ready: the API server serves, the nodes are
// Ready. The first on a machine takes minutes, see [Binaries]. If a process dies meanwhile the
// error has the end of its log, and the logs stay. If ctx is cancelled nothing stays.
func New(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.AuditPolicy == "" {
		options.AuditPolicy = defaultAuditPolicy
	}
	bin, err := Binaries(ctx, options.Progress)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "bellwether-")
	if err != nil {
		return nil, fmt.Errorf("e2e: start control plane: %w", err)
	}
	c := &ControlPlane{
		Dir: dir, bin: bin,
		nodes: map[string]*Process{}, users: map[string]*rest.Config{}, programs: map[string]string{},
	}
	if err := c.start(ctx, options); err != nil {
		c.stop()
		if errors.Is(ctx.Err(), context.Canceled) { // the caller wants no control plane any more, and no logs
			return nil, fmt.Errorf("e2e: start control plane: %w", errors.Join(err, os.RemoveAll(dir)))
		}
		return nil, fmt.Errorf("e2e: start control plane (logs in %s): %w", dir, err)
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, options Options) error {
	var err error
	if c.group, err = NewGroup(c.Dir); err != nil {
		return err
	}
	if c.pki, err = newPKI(); err != nil {
		return err
	}
	if err := c.pki.write(c.Dir, options.Address); err != nil {
		return err
	}
	if err := c.startServers(options); err != nil {
		return err
	}
	if c.client, err = newClient(c.Admin()); err != nil {
		return err
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	if err := c.startControllers(options); err != nil {
		return err
	}
	return c.startNodes(ctx, options)
}

// Node returns the KWOK process that plays a node or a group of nodes of [Options], nil if there is
// none of that name.
func (c *ControlPlane) Node(name string) *Process { return c.nodes[name] }

// Run starts a process that ends with the control plane, with its log beside the others: a replica
// under test, for example. Names of the control plane's own processes (etcd, kube-apiserver, …,
// node-<name>) are taken.
func (c *ControlPlane) Run(command Command) (*Process, error) {
	return c.group.Start(command)
}

// Close ends everything and removes Dir.
func (c *ControlPlane) Close() error {
	c.stop()
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("e2e: close control plane: %w", err)
	}
	return nil
}

// stop ends everything that has been started. Dir stays.
func (c *ControlPlane) stop() {
	c.proxiesMu.Lock()
	proxies := c.proxies
	c.proxies = nil
	c.proxiesMu.Unlock()
	for _, proxy := range proxies {
		_ = proxy.Close() // possibly closed before
	}
	if c.group != nil {
		_ = c.group.Close()
	}
	for _, port := range c.ports {
		port.close()
	}
	c.ports = nil
	_ = c.audit.tail.Close()
}
