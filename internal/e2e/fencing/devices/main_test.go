package devices_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

const (
	patience = 3 * time.Minute // for what has no bound of its own
	poll     = 20 * time.Millisecond
)

// root is where the repository begins.
const root = "../../../.."

// lanes is how many machines there are, and tests that run at the same time: they wait for devices
// more than they work.
const lanes = 10

// spareNode is where fencers run.
const spareNode = "spare"

// auditPolicy has the versions of records logged with the writes that have made them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch]
  resources: [{group: fencing.bellwether.dev, resources: [nodefences, nodefences/status]}]
- level: Metadata
`

// shared is the control plane of all tests.
var shared *e2e.ControlPlane

// machines are processes of KWOK, which live as long as their machine has power. A test has one for
// itself.
var (
	machines []string
	free     = make(chan string, 100)
)

func TestMain(m *testing.M) {
	lab.Main()
	if lab.OptedOut() {
		os.Exit(m.Run()) // all are skipped
	}
	if err := flag.Set("test.parallel", strconv.Itoa(lanes)); err != nil {
		panic(err)
	}
	flag.Parse()
	for i := range lanes {
		if flag.Lookup("test.bench").Value.String() != "" {
			break // benchmarks do without them
		}
		machines = append(machines, fmt.Sprintf("m%d", i+1))
		free <- machines[i]
	}
	e2e.Main(m, &shared,
		e2e.Options{ControllerManager: true, Nodes: append([]string{spareNode}, machines...), AuditPolicy: auditPolicy},
		install)
}

// install makes the API server know NodeFences.
func install(cp *e2e.ControlPlane) error {
	ctx := context.Background()
	if err := cp.Apply(ctx,
		filepath.Join(root, "fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml")); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cp.Admin())
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(v1alpha1.Resource()).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// soaking says that there is time for everything.
func soaking() bool { return os.Getenv(e2e.SoakEnv) != "" }
