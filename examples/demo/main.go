// Command demo shows what Bellwether is for, with real processes on a Kubernetes API, in chapters:
//
//   - election: three copies of examples/leaderelection; one works. The leader is killed, stopped
//     and ended.
//   - life: three Pods of examples/leaderforlife; one leads until it ends. Its container is killed,
//     it is evicted, and deleted in the foreground.
//   - sharding: three copies of examples/sharding share 1,000 objects. A fourth joins, one is
//     killed, one ends. It draws which shard had the objects.
//   - endpoints: three copies of examples/endpoints serve behind a Service. One is killed and comes
//     back, one ends, and traffic follows.
//   - fencing: a machine hangs. examples/fencer switches it off by its BMC, its Pod moves on, and
//     the machine comes back. It needs Debian's packages of fence agents.
//   - nodes: Pods on nodes with a real kubelet and containerd. The machines of two leaders lose
//     their power. It needs root, and Debian's packages of containerd and others.
//
// Each reports how long the others took to carry on, and whether two processes ever did the same work at once.
//
//	go run .                                 # on an API server in memory: all but fencing and nodes
//	go run . -controlplane real              # starts etcd and Kubernetes, which it builds first: all chapters
//	go run . -chapter sharding               # one chapter, by its name or its number
//	go run . -kubeconfig ~/.kube/config      # uses yours: Leases, ConfigMaps and a Service in the namespace given
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// interrupted is the exit code of an interrupted program.
const interrupted = 130

func main() {
	lab.Main() // the BMCs of the chapter fencing start this program to ask what the machine does
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, began := demo{report: &report{out: os.Stdout}}, time.Now()
	if played, err := playedInside(ctx, d.report); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	} else if played {
		return
	}
	flag.StringVar(&d.kubeconfig, "kubeconfig", "",
		"path to the kubeconfig of a cluster to use; empty: as -controlplane says")
	flag.StringVar((*string)(&d.place), "controlplane", string(embedded),
		fmt.Sprintf("what to start: an API server in memory (%s), or etcd and Kubernetes (%s)", embedded, genuine))
	flag.StringVar(&d.namespace, "namespace", "default", "namespace of all objects")
	flag.StringVar(&d.picture, "picture", "", "file for the picture of the chapter sharding; empty: none")
	wanted := flag.String("chapter", "",
		"which one to play, by its name or its number; empty: all. They are:\n"+contents())
	flag.Parse()
	selected, err := choose(*wanted)
	if err == nil && d.place != embedded && d.place != genuine {
		err = fmt.Errorf("controlplane: must be %s or %s (got %q)", embedded, genuine, d.place)
	}
	if d.kubeconfig != "" {
		d.place = foreign
	}
	if len(selected) == 1 && selected[0].name == nodesChapter {
		d.place = own
	}
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("takes no arguments but flags (got %q)", flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	switch err := d.run(ctx, selected); {
	case err != nil && ctx.Err() != nil:
		d.lines("\nInterrupted. All that was started has ended.")
		os.Exit(interrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		if by := e2e.ClockSet(began); by != 0 {
			fmt.Fprintf(os.Stderr, "demo: the machine's clock was set by %v meanwhile: that ends leaders and shards, "+
				"and nothing starts them again here\n", by.Round(time.Second))
		}
		os.Exit(1)
	}
}

// demo is some chapters, played one after the other.
type demo struct {
	*report
	kubeconfig, namespace, picture string
	place                          place
}

func (d demo) run(ctx context.Context, selected []chapter) (failed error) {
	if len(selected) == len(chapters) {
		d.paragraph("Chapters; CHAPTER=1 plays one, by its number or its name:")
		d.lines(contents())
	}
	var cp *e2e.ControlPlane
	var server *apisim.Standalone
	switch playable := slices.ContainsFunc(selected, func(c chapter) bool { return c.lacks(d.place) == "" }); {
	case d.place == foreign || d.place == own || !playable:
	case d.place == genuine:
		start := time.Now()
		if err := d.during("Starting a control plane, and nodes in pretence, on loopback ports", func() (err error) {
			cp, err = e2e.New(ctx,
				e2e.Options{ControllerManager: true, Scheduler: true, Nodes: nodes, Progress: d.report})
			return err
		}); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, cp.Close()) }()
		var err error
		if d.kubeconfig, err = cp.Kubeconfig(cp.Admin()); err != nil {
			return err
		}
		d.paragraph("Ready after %.1f s.", time.Since(start).Seconds())
	default:
		var err error
		if server, d.kubeconfig, err = embed(ctx, d.namespace); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, server.Close(), os.Remove(d.kubeconfig)) }()
		d.paragraph("The processes are real. Their API server is in memory, on a loopback port: it passes the table " +
			"of cases that a " +
			"real one passes (internal/apisim/conformance). With CONTROLPLANE=real they run on etcd and Kubernetes, " +
			"which takes some " +
			"minutes to build, and the chapters fencing and nodes are played as well.")
	}
	dir, err := os.MkdirTemp("", "bellwether-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if failed != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "demo: logs of the processes:", dir)
			return
		}
		failed = errors.Join(failed, os.RemoveAll(dir))
	}()
	for _, c := range selected {
		d.paragraph("")
		d.paragraph("== %s: %s", c.name, c.about)
		if what := c.lacks(d.place); what != "" {
			d.paragraph("Not played: %s", what)
			continue
		}
		s := &stage{
			cp: cp, server: server, kubeconfig: d.kubeconfig, namespace: d.namespace, picture: d.picture,
			dir: filepath.Join(dir, c.name), report: d.report,
		}
		if err := perform(ctx, c, s); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// perform plays a chapter.
func perform(ctx context.Context, c chapter, s *stage) (err error) {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	if c.program != "" {
		if err := s.build(ctx, c.program); err != nil {
			return err
		}
	}
	if s.group, err = e2e.NewGroup(s.dir); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.group.Close())
		s.watching.Wait()
	}()
	s.start = time.Now()
	playing, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.fail = fail
	if err = c.play(playing, s); ctx.Err() == nil && playing.Err() != nil {
		return context.Cause(playing)
	}
	return err
}
