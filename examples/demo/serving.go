package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	demoService = "bellwether-demo"
	heartbeat   = time.Second
)

// servers of the chapter, and the addresses under which they publish themselves. The addresses are
// from a range reserved for documentation, because Kubernetes publishes no loopback addresses.
// Without kube-proxy, the chapter's client gets the real ports.
var servers = []string{"a", "b", "c"}

func addressOf(server string) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, server[0] - 'a' + 1})
}

// serving is a chapter: copies of examples/endpoints, and a client of their Service.
type serving struct {
	*stage
	client    kubernetes.Interface
	traffic   *traffic
	processes map[string]*e2e.Process
	ports     map[string]string // where a server listens
}

func playServing(ctx context.Context, s *stage) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	d := &serving{stage: s, client: client, processes: map[string]*e2e.Process{}, ports: map[string]string{}}
	if err := d.remove(ctx); err != nil { // what an earlier demo has left behind
		return err
	}
	defer func() { err = errors.Join(err, d.remove(context.WithoutCancel(ctx))) }()
	_, err = client.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: demoService},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, server := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		d.ports[server] = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
	}
	d.traffic = newTraffic(d.published, d.ports)
	sending, stop := context.WithCancel(ctx)
	var senders sync.WaitGroup
	senders.Go(func() { d.traffic.send(sending) })
	defer senders.Wait()
	defer stop()
	return d.play(ctx)
}

// remove deletes the objects of the chapter.
func (d *serving) remove(ctx context.Context) error {
	selector := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + demoService}
	errs := []error{
		d.client.CoreV1().Services(d.namespace).Delete(ctx, demoService, metav1.DeleteOptions{}),
		d.client.CoreV1().ConfigMaps(d.namespace).Delete(ctx, demoService+"-endpoints", metav1.DeleteOptions{}),
		d.client.DiscoveryV1().EndpointSlices(d.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, selector),
	}
	return errors.Join(slices.DeleteFunc(errs, apierrors.IsNotFound)...)
}

// published returns the servers of the Service.
func (d *serving) published(ctx context.Context) ([]string, error) {
	list, err := d.client.DiscoveryV1().EndpointSlices(d.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + demoService})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			for _, server := range servers {
				if slices.Contains(e.Addresses, addressOf(server).String()) {
					found = append(found, server)
				}
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// play is the scenario. It returns an error if anything unexpected happens.
func (d *serving) play(ctx context.Context) error {
	d.paragraph("Three servers publish themselves behind a Service without a selector. Each sends a heartbeat every "+
		"second; one that is silent "+
		"for %v is removed by the others. A client sends 50 requests per second to those that are published, in turn.",
		leaseDuration)
	d.paragraph("")
	d.paragraph("%s", trafficHeader(servers))
	for _, act := range []func(context.Context) error{d.begin, d.kill, d.again, d.end} {
		if err := errors.Join(act(ctx), d.rows(ctx, calm)); err != nil {
			return err
		}
	}
	if err := d.group.Close(); err != nil {
		return err
	}
	d.sum()
	return nil
}

func (d *serving) launch(server string) error {
	d.say(server, "started, publishes %s", addressOf(server))
	if p := d.processes[server]; p != nil {
		return p.Restart()
	}
	p, err := d.startWatched(e2e.Command{Name: server, Path: d.program, Args: []string{
		"-kubeconfig", d.kubeconfig, "-namespace", d.namespace, "-service", demoService,
		"-addresses", addressOf(server).String(), "-listen", d.ports[server], "-linger", "1s",
		"-interval", heartbeat.String(), "-expire-after", leaseDuration.String(),
	}})
	d.processes[server] = p
	return err
}

// begin starts all servers.
func (d *serving) begin(ctx context.Context) error {
	at := time.Now()
	if err := errors.Join(d.launch("a"), d.launch("b"), d.launch("c")); err != nil {
		return err
	}
	if err := d.await(ctx, "a", "b", "c"); err != nil {
		return err
	}
	d.result("start: all three were published after %v", time.Since(at))
	return nil
}

// kill ends one without a withdrawal.
func (d *serving) kill(ctx context.Context) error {
	d.say("b", "kill -9")
	d.traffic.mark()
	if err := d.processes["b"].Kill(); err != nil {
		return err
	}
	at := time.Now()
	if err := d.await(ctx, "a", "c"); err != nil {
		return err
	}
	took := time.Since(at)
	if err := d.rows(ctx, calm); err != nil {
		return err
	}
	m := d.traffic.since()
	d.result(fmt.Sprintf("kill -9: the others removed it after %%v; until then %d of %d requests failed", m.failed,
		m.sent), took)
	if m.lastFailed.After(at.Add(took + heartbeat)) {
		return errors.New("requests failed after the dead server was removed")
	}
	return nil
}

// again starts it again.
func (d *serving) again(ctx context.Context) error {
	at := time.Now()
	if err := errors.Join(d.launch("b"), d.await(ctx, "a", "b", "c")); err != nil {
		return err
	}
	d.result("restart: it was published again after %v", time.Since(at))
	return nil
}

// end asks one to end, as a rollout does.
func (d *serving) end(ctx context.Context) error {
	d.say("c", "kill -TERM: it withdraws, and keeps answering for a second")
	d.traffic.mark()
	at := time.Now()
	if err := d.processes["c"].Terminate(); err != nil {
		return err
	}
	if err := d.await(ctx, "a", "b"); err != nil {
		return err
	}
	took := time.Since(at)
	exit, err := d.exited(ctx, d.processes["c"], 0)
	if err != nil {
		return err
	}
	d.say("c", "%v", exit)
	if err := d.rows(ctx, calm); err != nil {
		return err
	}
	m := d.traffic.since()
	d.result(fmt.Sprintf("kill -TERM: it was withdrawn after %%v; %d of %d requests failed", m.failed, m.sent), took)
	if m.failed > 0 {
		return fmt.Errorf("%d requests failed while a server ended", m.failed)
	}
	return nil
}

// await waits until these are published and prints a row every second.
func (d *serving) await(ctx context.Context, want ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows := time.NewTicker(time.Second)
	defer rows.Stop()
	for {
		if slices.Equal(want, d.traffic.targets()) {
			d.row()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("published are %v, not %v, after %v", d.traffic.targets(), want, patience)
		case <-rows.C:
			d.row()
		case <-time.After(refresh):
		}
	}
}

// rows prints a row every second for a time.
func (d *serving) rows(ctx context.Context, long time.Duration) error {
	for end := time.Now().Add(long); time.Now().Before(end); d.row() {
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// row prints the table's next line.
func (d *serving) row() { d.paragraph("%s", d.traffic.row(servers, time.Since(d.start))) }
