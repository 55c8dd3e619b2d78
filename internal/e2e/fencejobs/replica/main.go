// Command replica is a controller that sends one command by a Job, or reads, and prints what came
// of it. It can be told to die right after one of its requests was carried out, before it has seen
// the answer.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run(ctx context.Context) error {
	// however busy the machine is
	c := fencejobs.Config{Image: "fencer:test", StartWithin: time.Minute, Timeout: 2 * time.Minute}
	kubeconfig := flag.String("kubeconfig", "", "path")
	flag.StringVar(&c.Namespace, "namespace", "", "of the Jobs")
	label := flag.String("label", "", "of the nodes that pods may run on")
	id := flag.String("id", "", "of the command to switch off")
	node := flag.String("node", "", "that is fenced")
	parameters := flag.String("parameters", "", "file with the agent's parameters")
	death := flag.String("die", "", "after this request, such as POST secrets")
	flag.Parse()
	c.Pod.Spec.NodeSelector = map[string]string{*label: "true"}
	rc, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	rc.QPS = -1
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return mortal{*death, next} })
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	jobs, err := fencejobs.New(client, c)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(*parameters)
	if err != nil {
		return err
	}
	values := map[string]string{}
	if err := json.Unmarshal(content, &values); err != nil {
		return err
	}
	target := agent.Target{
		Node: *node, Device: "fence_ipmilan/bmc/", Agent: "fence_ipmilan",
		Parameters: agent.NewParameters(values),
	}
	return jobs.Switch(ctx, target, agent.Command{ID: *id, Action: agent.ActionOff})
}

// mortal dies when a request was carried out.
type mortal struct {
	after string
	next  http.RoundTripper
}

func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	if method, resource, _ := strings.Cut(m.after, " "); r.Method == method &&
		strings.Contains(r.URL.Path, "/"+resource) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return response, err
}
