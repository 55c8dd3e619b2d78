package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	leaseDuration = 5 * time.Second
	calm          = 3 * time.Second // between two events, so that both are seen
	patience      = 2 * time.Minute // for whatever comes next
	glance        = 100 * time.Millisecond
)

// programs are those that are run, by directory.
var programs = []program{
	{Digests, "../../examples/controllerruntime"},
	{Fencer, "../../examples/fencer"},
	{Daemon, "live/daemon"},
}

type program struct{ job, directory string }

var resources = []apisim.Resource{
	{GroupVersionResource: v1alpha1.Resource(), Kind: "NodeFence", Status: true},
	{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true},
	{GroupVersionResource: eventsv1.SchemeGroupVersion.WithResource("events"), Kind: "Event", Namespaced: true},
	{GroupVersionResource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"), Kind: "VolumeAttachment"},
}

// stage has the API server and the processes.
type stage struct {
	dir     string // for logs and the like
	server  *apisim.Standalone
	gate    *gate      // for the operators
	network *e2e.Proxy // before it
	group   *e2e.Group
	client  kubernetes.Interface
	scraper *scraper
	started atomic.Int32 // processes
}

func newStage(ctx context.Context, dir string, r Recorder) (*stage, error) {
	server, err := apisim.Listen(ctx, resources...)
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, server: server, scraper: newScraper(r)}
	content, err := server.Kubeconfig("admin", Namespace)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.gate, err = newGate(server.Handler()); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.network, err = e2e.NewProxy(s.gate.address); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.group, err = e2e.NewGroup(dir); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close ends all processes.
func (s *stage) close() (err error) {
	if s.group != nil {
		err = s.group.Close()
	}
	if s.network != nil {
		err = errors.Join(err, s.network.Close())
	}
	if s.gate != nil {
		err = errors.Join(err, s.gate.server.Close())
	}
	return errors.Join(err, s.server.Close())
}

func (s *stage) build(ctx context.Context, directory string, p program) error {
	command := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.program(p.job), ".")
	command.Dir = filepath.Join(directory, p.directory)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // so that it ends its compilers
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("live: build %s: %w: %s", p.directory, errors.Join(err, ctx.Err()), out)
	}
	return nil
}

func (s *stage) program(job string) string { return filepath.Join(s.dir, job) }

// kubeconfig writes the credentials of a process.
func (s *stage) kubeconfig(name string, content []byte, err error) (string, error) {
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, "kubeconfig-"+name)
	return file, os.WriteFile(file, content, 0o600)
}

// start starts a process, and scrapes it from then on.
func (s *stage) start(ctx context.Context, of Target, c e2e.Command) (*e2e.Process, error) {
	c.Name, c.Path = fmt.Sprintf("%s-%s-%d", of.Job, of.Instance, s.started.Add(1)), s.program(of.Job)
	p, err := s.group.Start(c)
	if err != nil {
		return nil, err
	}
	return p, s.await(ctx, c.Name+" serves metrics", func(context.Context) (bool, error) {
		address, err := served(p.Log())
		if address != "" {
			s.scraper.add(of, address)
		}
		return address != "", err
	})
}

// served is where a process says in its log that it serves metrics.
func served(log string) (address string, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(text) {
		var said struct {
			Message string `json:"msg"`
			Address string `json:"address"`
		}
		if json.Unmarshal(line, &said) == nil && said.Message == "answering probes" {
			return said.Address, nil
		}
	}
	return "", nil
}

// await waits for a condition of what was scraped, or of the cluster.
func (s *stage) await(ctx context.Context, what string, so func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if is, err := so(ctx); is || err != nil {
			return err
		}
		if err := sleep(ctx, glance); err != nil {
			return fmt.Errorf("live: %s: not within %v; the logs are in %s: %w", what, patience, s.dir, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// through is the address of the API server by the network that can be cut.
func (s *stage) through(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Host = s.network.Address()
	return u.String(), nil
}
