package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	readyPoll = 50 * time.Millisecond
	// readyTimeout is for one question: a connection to an API server that was paused or killed may
	// never answer.
	readyTimeout = time.Second

	// logTail is how much of a dead process's log goes into an error, in bytes.
	logTail = 2 << 10
)

// ServiceRange has the addresses of Services. The first is that of the API server's.
const ServiceRange = "10.0.0.0/24"

// startServers starts etcd and the API server, which waits for etcd by itself.
func (c *ControlPlane) startServers(options Options) error {
	var peer *port
	for _, p := range []**port{&c.etcdPort, &peer, &c.apiPort} {
		reserved, err := reservePort()
		if err != nil {
			return err
		}
		*p, c.ports = reserved, append(c.ports, reserved)
	}
	etcdURL, peerURL := "http://"+c.etcdPort.address(), "http://"+peer.address()
	if err := os.WriteFile(c.path(auditPolicyFile), []byte(options.AuditPolicy), 0o600); err != nil {
		return err
	}
	listen := []string{
		"--bind-address=127.0.0.1", "--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount", // Pods start without a controller manager too
	}
	if options.Address != "" {
		asKubeletClient := c.User("kube-apiserver-kubelet-client", "system:masters") // for kubectl logs
		if err := errors.Join(
			os.WriteFile(c.path(kubeletClientCertificate), asKubeletClient.CertData, 0o600),
			os.WriteFile(c.path(kubeletClientKey), asKubeletClient.KeyData, 0o600),
		); err != nil {
			return err
		}
		listen = []string{
			"--bind-address=0.0.0.0", "--advertise-address=" + options.Address, "--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP",
			"--kubelet-client-certificate=" + c.path(kubeletClientCertificate),
			"--kubelet-client-key=" + c.path(kubeletClientKey),
		}
	}
	listen = append(listen, options.APIServer...)
	var err error
	c.Etcd, err = c.component("etcd",
		"--data-dir="+c.path("etcd"),
		"--unsafe-no-fsync", // a process that is killed loses nothing by it, only a machine does
		"--socket-reuse-port",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL,
		"--initial-cluster=default="+peerURL,
	)
	if err != nil {
		return err
	}
	c.APIServer, err = c.component("kube-apiserver", append(listen,
		"--etcd-servers="+etcdURL,
		fmt.Sprintf("--secure-port=%d", c.apiPort.number), "--permit-port-sharing",
		"--tls-cert-file="+c.path(servingCertificate), "--tls-private-key-file="+c.path(servingKey),
		"--client-ca-file="+c.path(caFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.path(serviceAccountKey),
		"--service-account-signing-key-file="+c.path(serviceAccountKey),
		"--service-cluster-ip-range="+ServiceRange,
		"--audit-policy-file="+c.path(auditPolicyFile), "--audit-log-path="+c.path(auditLogFile),
		"--audit-log-maxsize=0", // no rotation: Audit reads one file
	)...)
	return err
}

// startControllers starts the controller manager and the scheduler if asked for. Each has a name of
// its own in the audit log, with an administrator's rights: otherwise the controller manager would
// need one identity per controller.
func (c *ControlPlane) startControllers(options Options) error {
	if options.ControllerManager {
		kubeconfig, err := c.Kubeconfig(c.User("system:kube-controller-manager", "system:masters"))
		if err != nil {
			return err
		}
		c.ControllerManager, err = c.component("kube-controller-manager",
			"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file="+c.path(serviceAccountKey), "--root-ca-file="+c.path(caFile),
			"--node-monitor-grace-period=8s", "--node-monitor-period=1s",
		)
		if err != nil {
			return err
		}
	}
	if options.Scheduler {
		kubeconfig, err := c.Kubeconfig(c.User("system:kube-scheduler", "system:masters"))
		if err != nil {
			return err
		}
		c.Scheduler, err = c.component("kube-scheduler", "--kubeconfig="+kubeconfig, "--leader-elect=false",
			"--secure-port=0")
		if err != nil {
			return err
		}
	}
	return nil
}

// DarkLabel is that of nodes of [Options].Groups without a process. Its value does not matter.
const DarkLabel = "bellwether.invalid/dark"

// groupLabel says which group a node is of.
const groupLabel = "bellwether.invalid/group"

// startNodes creates the nodes with a process each, or for their group, and waits until all are
// Ready.
func (c *ControlPlane) startNodes(ctx context.Context, options Options) error {
	if len(options.Nodes)+len(options.Groups) == 0 {
		return nil
	}
	kubeconfig, err := c.Kubeconfig(c.User("kwok", "system:masters"))
	if err != nil {
		return err
	}
	play := func(name, which string) error {
		c.nodes[name], err = c.Run(Command{
			Name: "node-" + name,
			Path: c.bin.KWOK,
			Args: []string{"--kubeconfig=" + kubeconfig, which, "--lease=8"},
		})
		return err
	}
	players := map[string]string{} // by node
	for _, name := range options.Nodes {
		if err := c.createNode(ctx, name, ""); err != nil {
			return err
		}
		if err := play(name, "--node="+name); err != nil {
			return err
		}
		players[name] = name
	}
	for group, names := range options.Groups {
		for _, name := range names {
			if err := c.createNode(ctx, name, group); err != nil {
				return err
			}
			players[name] = group
		}
		if err := play(group, "--nodes="+groupLabel+"="+group+",!"+DarkLabel); err != nil {
			return err
		}
	}
	for name, player := range players {
		if err := c.await(ctx, c.nodes[player], func(ctx context.Context) error {
			node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("node %s is not Ready", name)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) createNode(ctx context.Context, name, group string) error {
	labels := map[string]string{corev1.LabelHostname: name}
	if group != "" {
		labels[groupLabel] = group
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	return nil
}

// Ready returns when the API server says it is ready: after a restart of it or of etcd. The error
// is that of ctx with the last answer, or says that the API server has ended, with the end of its
// log.
func (c *ControlPlane) Ready(ctx context.Context) error {
	admin := c.Admin()
	tlsConfig, err := rest.TLSConfigFor(admin)
	if err != nil {
		return fmt.Errorf("e2e: create client: %w", err)
	}
	// A connection per question: one from before a pause or a restart may hang.
	transport := &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}
	return c.await(ctx, c.APIServer, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(response.Body)
			return fmt.Errorf("readyz: %s: %s", response.Status, body)
		}
		return nil
	})
}

// Compact makes etcd forget every state but the current one, as the API server has it do every five
// minutes. What the API server has seen itself it still serves, lists and watches of the past,
// until it is restarted.
func (c *ControlPlane) Compact(ctx context.Context) error {
	var now struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	// A write, not a read: etcd refuses to compact twice to the same revision.
	if err := c.askEtcd(ctx, "put", map[string]any{"key": []byte("compacted")}, &now); err != nil {
		return fmt.Errorf("e2e: compact: advance the revision: %w", err)
	}
	return c.compactTo(ctx, now.Header.Revision)
}

// CompactTo makes etcd forget every state before a revision. It is for runs whose API server is
// restarted too often to do that: etcd refuses writes when its data have grown to 2 GB.
func (c *ControlPlane) CompactTo(ctx context.Context, revision int64) error {
	return c.compactTo(ctx, strconv.FormatInt(revision, 10))
}

func (c *ControlPlane) compactTo(ctx context.Context, revision string) error {
	if err := c.askEtcd(ctx, "compaction", map[string]any{"revision": revision}, &struct{}{}); err != nil {
		return fmt.Errorf("e2e: compact: %w", err)
	}
	return nil
}

// askEtcd calls a method of etcd's KV service as JSON.
func (c *ControlPlane) askEtcd(ctx context.Context, method string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.etcdPort.address()+"/v3/kv/"+method,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, content)
	}
	return json.Unmarshal(content, answer)
}

// await polls until check has no error. It gives up when ctx ends, or when one of the processes
// that check depends on has ended.
func (c *ControlPlane) await(ctx context.Context, process *Process, check func(context.Context) error) error {
	last := errors.New("not asked yet")
	err := wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		for _, p := range []*Process{c.Etcd, c.APIServer, process} {
			if isClosed(p.Done()) {
				return false, fmt.Errorf("e2e: %s: %s; its log ends:\n%s", p.command.Name, p.current().exit,
					tail(p.log))
			}
		}
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("e2e: wait for %s: %w (last: %w)", process.command.Name, err, last)
	}
	return err
}

func (c *ControlPlane) component(name string, arguments ...string) (*Process, error) {
	return c.Run(Command{Name: name, Path: c.bin.ControlPlane, Args: append([]string{name}, arguments...)})
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.Dir, name) }

// tail is the end of a log file.
func tail(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content[max(0, len(content)-logTail):]
}
