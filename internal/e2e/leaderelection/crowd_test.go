package leaderelection_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// clientGoWarm is a program whose caches run before it leads, as with a manager of controller-runtime.
var clientGoWarm = peer{name: "client-go-warm"}

// crowd is a control plane with many ConfigMaps in a namespace, for processes that cache all of them.
type crowd struct {
	b                  *testing.B
	cp                 *e2e.ControlPlane
	namespace, program string
	configMaps         coreclient.ConfigMapInterface // of an administrator
}

// quietAboutAdmin logs what replicas do, and nothing of who created the crowd.
const quietAboutAdmin = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [admin]}
- {level: Metadata}
`

func newCrowd(b *testing.B, objects int) *crowd {
	b.Helper()
	c := &crowd{b: b, cp: e2e.Start(b, e2e.Options{AuditPolicy: quietAboutAdmin})}
	var err error
	c.program, err = c.cp.Program(b.Context(), "./controller")
	require.NoError(b, err)
	c.namespace, err = c.cp.Namespace(b.Context(), "crowd")
	require.NoError(b, err)
	config := c.cp.Admin()
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	c.configMaps = client.CoreV1().ConfigMaps(c.namespace)
	const creators = 50
	text := strings.Repeat("x", 100)
	begin := time.Now()
	var creating sync.WaitGroup
	for i := range creators {
		creating.Go(func() {
			for n := i; n < objects; n += creators {
				if !c.create(fmt.Sprint("c-", n), map[string]string{"n": strconv.Itoa(n), "text": text}) {
					return
				}
			}
		})
	}
	creating.Wait()
	b.Logf("%d ConfigMaps in %v", objects, time.Since(begin).Round(time.Second))
	return c
}

// in returns the crowd for a part of the benchmark.
func (c crowd) in(b *testing.B) *crowd {
	c.b = b
	return &c
}

func (c *crowd) create(name string, data map[string]string) bool {
	_, err := c.configMaps.Create(c.b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data,
	}, metav1.CreateOptions{})
	return assert.NoError(c.b, err)
}

// user returns the client configuration of a peer's replicas: not an administrator, whose requests
// the API server puts before all others.
func (c *crowd) user(p peer) *rest.Config {
	c.b.Helper()
	require.NoError(c.b, c.cp.Grant(c.b.Context(), p.name, c.namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs},
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "list", "watch", "patch"},
		},
	))
	return c.cp.User(p.name)
}

// moment is when a replica's work began or ended, and the last write that it knew of.
type moment struct {
	at    time.Time
	write int
}

// run starts a replica. said is called with what it prints.
func (c *crowd) run(p peer, config *rest.Config, lease, identity string, said func(string, moment), args ...string,
) *e2e.Process {
	c.b.Helper()
	kubeconfig, err := c.cp.Kubeconfig(config)
	require.NoError(c.b, err)
	process, err := c.cp.Run(e2e.Command{
		Name: fmt.Sprint(p.name, "-", lease, "-", identity), Path: c.program,
		Args: append([]string{
			"-elector", p.name, "-kubeconfig", kubeconfig, "-namespace", c.namespace, "-lease", lease,
			"-identity", identity,
		}, args...),
		OnLine: func(line string) {
			words := strings.Fields(line)
			var m moment
			if len(words) == 3 {
				at, err := strconv.ParseInt(words[1], 10, 64)
				assert.NoError(c.b, err)
				m.at = time.Unix(0, at)
				m.write, err = strconv.Atoi(words[2])
				assert.NoError(c.b, err)
			}
			said(words[0], m)
		},
	})
	require.NoError(c.b, err)
	return process
}

// eventually waits for something that has no bound of its own.
func (c *crowd) eventually(what string, happened func() bool) {
	c.b.Helper()
	require.Eventually(c.b, happened, 5*patience, poll, what)
}

// asked is how many requests the replicas have sent.
type asked struct {
	all        int
	everything int // lists of all ConfigMaps, and watches that begin with them
	ones       int // lists of one object
	watches    int // of ConfigMaps, that begin where the one before has ended
	refused    int // lists and watches of ConfigMaps
}

// asked counts what a user asked in a time. It reads on in the audit log.
func (c *crowd) asked(user string, since, until time.Time) asked {
	c.b.Helper()
	var count asked
	seen := map[string]bool{} // by audit ID: a watch has two stages
	require.NoError(c.b, c.cp.DigestAudit(func(e e2e.AuditEvent) {
		if e.User != user || seen[e.ID] || e.Received.Before(since) || e.Received.After(until) {
			return
		}
		seen[e.ID] = true
		count.all++
		uri, err := url.Parse(e.RequestURI)
		require.NoError(c.b, err)
		switch query := uri.Query(); {
		case e.Resource != "configmaps" || e.Verb != "list" && e.Verb != "watch":
		case e.Code != 200:
			count.refused++
		case query.Get("limit") == "1":
			count.ones++
		case query.Get("continue") != "": // of a list that is counted
		case e.Verb == "watch" && query.Get("sendInitialEvents") != "true":
			count.watches++
		default:
			count.everything++
		}
	}))
	return count
}
