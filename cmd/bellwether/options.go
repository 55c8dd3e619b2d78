package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// options are the command line of bellwether run.
type options struct {
	election    leaderelection.Config
	kubeconfig  string
	credentials string // a directory
	grace       time.Duration
	stop        syscall.Signal // if 0, SIGTERM or a SIGINT that has come
	health      string
	probes      string // the address at which kubelets ask
	after       string
	program     string // the path of arguments[0]
	arguments   []string
	ring        ringOptions
}

// ringOptions are those of a shard. name is empty without --ring.
type ringOptions struct {
	name, shard    string
	weight         int
	balance        float64
	version        string
	resources      []schema.GroupVersionResource
	children       []schema.GroupVersionResource
	selector       labels.Selector // nil: all
	namespaces     []string        // none: all
	quiet          time.Duration
	showMarks      bool
	dryRun         bool
	ownElection    types.NamespacedName
	serviceAccount string
}

// resourcesFlag is a list of resources, as <resource>.<version>.<group>.
type resourcesFlag struct {
	to *[]schema.GroupVersionResource
}

func (f resourcesFlag) String() string { return "" }

func (f resourcesFlag) Set(value string) error {
	parts := strings.SplitN(value, ".", 3)
	if len(parts) < 2 || slices.Contains(parts[:2], "") {
		return errors.New("must be <resource>.<version>.<group>, such as deployments.v1.apps or configmaps.v1")
	}
	r := schema.GroupVersionResource{Resource: parts[0], Version: parts[1]}
	if len(parts) == 3 {
		r.Group = parts[2]
	}
	*f.to = append(*f.to, r)
	return nil
}

// ringFlags are the flags of a shard.
func ringFlags(r *ringOptions) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.StringVar(&r.name, "ring", "", "`name` of a ring: the program then works on the objects of this shard only")
	flags.StringVar(&r.shard, "shard", "", "`name` of this shard, the same after a restart (default: the hostname)")
	flags.IntVar(&r.weight, "weight", shardlease.DefaultWeight,
		"how `many` objects this shard gets, compared with others: 0 to 1000; kubectl bellwether weigh overrides it")
	flags.Float64Var(&r.balance, "balance", 0, "how many `times` its share a shard may have of up to 1,000 objects, "+
		"such as 1.25 (default: any)")
	flags.StringVar(&r.version, "version", "", "`version` of the program, which kubectl bellwether ring shows")
	flags.Var(resourcesFlag{&r.resources}, "resource",
		"`resource.version.group` that the ring distributes; may be repeated")
	flags.Var(resourcesFlag{&r.children}, "children", "`resource.version.group` of what the program makes for such an "+
		"object, with it as the controller; may be repeated")
	flags.Func("selector", "`labels`, as kubectl takes them, of the objects that the ring distributes (default: all)",
		r.setSelector)
	flags.Func("namespaces", "`names`, with commas, of the namespaces whose objects the ring distributes (default: "+
		"all)", r.setNamespaces)
	flags.DurationVar(&r.quiet, "quiet", 2*time.Second,
		"how `long` to wait, when an object moves to another shard, after its last write here")
	flags.BoolVar(&r.showMarks, "show-marks", false, "let the program read the ring's labels and annotations")
	flags.BoolVar(&r.dryRun, "dry-run", false, "send the program's writes as dry runs, and log deletions that follow "+
		"when an object moves to another shard")
	flags.Func("own-election",
		"`namespace/name` of the Lease of the program's own leader election: every shard then leads", r.setOwnElection)
	flags.StringVar(&r.serviceAccount, "service-account", "", "`directory` for token, ca.crt and namespace, for "+
		"programs that know only /var/run/secrets/kubernetes.io/serviceaccount")
	return flags
}

func (r *ringOptions) setSelector(value string) (err error) {
	if r.selector, err = labels.Parse(value); err != nil {
		return err
	}
	requirements, _ := r.selector.Requirements()
	for _, each := range requirements {
		if len(api.WithoutMarks(map[string]string{each.Key(): ""})) == 0 {
			return fmt.Errorf("must not name %s, a label of rings", each.Key())
		}
	}
	return nil
}

func (r *ringOptions) setNamespaces(value string) error {
	r.namespaces = strings.Split(value, ",")
	for i, each := range r.namespaces {
		if problems := validation.IsDNS1123Label(each); len(problems) > 0 {
			return fmt.Errorf("%q: %s", each, strings.Join(problems, "; "))
		}
		if slices.Contains(r.namespaces[:i], each) {
			return fmt.Errorf("%q: must be named once", each)
		}
	}
	return nil
}

func (r *ringOptions) setOwnElection(value string) error {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return errors.New("must be namespace/name")
	}
	r.ownElection = types.NamespacedName{Namespace: namespace, Name: name}
	return nil
}

func (r *ringOptions) validate(election leaderelection.Config) (errs []error) {
	if r.name == "" {
		return nil
	}
	if election.Name != "" {
		errs = append(errs, fmt.Errorf("--ring: must not be set with --lease (got %q and %q)", r.name, election.Name))
	}
	if election.Identity != "" {
		errs = append(errs, fmt.Errorf("--identity: must not be set with --ring, where --shard names the replica "+
			"(got %q)", election.Identity))
	}
	if len(r.resources) == 0 {
		errs = append(errs, errors.New("--resource: must be set with --ring"))
	}
	if r.weight < 0 || r.weight > shardlease.MaxWeight {
		errs = append(errs, fmt.Errorf("--weight: must be from 0 to %d (got %d)", shardlease.MaxWeight, r.weight))
	}
	if r.balance != 0 && !(r.balance >= 1 && r.balance <= 100) { // NaN is neither
		errs = append(errs, fmt.Errorf("--balance: must be 0, or from 1 to 100 (got %v)", r.balance))
	}
	if r.quiet < 0 {
		errs = append(errs, fmt.Errorf("--quiet: must not be negative (got %v)", r.quiet))
	}
	return errs
}

// parse returns the options, or an error that names the flag, the value and the rule. On request it
// writes the usage to help.
func parse(arguments []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bellwether run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.election.Name, "lease", "", "`name` of the Lease; required without --ring")
	flags.StringVar(&o.election.Namespace, "namespace", "",
		"`namespace` of the Lease (default: that of the Pod, or of the kubeconfig's context)")
	flags.DurationVar(&o.election.LeaseDuration, "duration", 15*time.Second,
		"how `long` the Lease lasts without renewal, in whole seconds")
	flags.StringVar(&o.election.Identity, "identity", "",
		"`text` that is unique per process (default: the hostname and random digits)")
	flags.StringVar(&o.election.PodUID, "pod-uid", "", "`UID` of this Pod, whose name is the hostname: others then "+
		"learn from the kubelet that this container has ended")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig (default: $KUBECONFIG, or in-cluster)")
	flags.StringVar(&o.credentials, "credentials", "", "`directory` of this Pod's token, ca.crt and namespace, if "+
		"it is not /var/run/secrets/kubernetes.io/serviceaccount")
	flags.DurationVar(&o.grace, "grace", 20*time.Second,
		"how `long` the processes of the program may take to end after SIGTERM; set a Pod's "+
			"terminationGracePeriodSeconds longer by 1.6 times --duration")
	stop := flags.String("stop-signal", "", "`name` of the signal that the program ends with, as in STOPSIGNAL "+
		"of its image, such as SIGQUIT or RTMIN+3 (default: SIGTERM, or SIGINT if bellwether gets that)")
	flags.StringVar(&o.health, "health-command", "",
		"`command` for sh -c before each renewal: while it fails, the Lease is not renewed. It has a tenth of "+
			"--duration")
	flags.StringVar(&o.probes, "health-address", "",
		"`address`, such as :8080, at which bellwether answers a kubelet's probes, /readyz and /healthz, and "+
			"with --ring /metrics")
	flags.StringVar(&o.after, "after", "",
		"`command` for sh -c that clears what the program has left on this host. It runs before bellwether contends "+
			"for the Lease, and after each end of the program, before the Lease is released. It has --duration")
	ofRing := ringFlags(&o.ring)
	ofRing.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
	flags.VisitAll(func(f *flag.Flag) {
		if _, many := f.Value.(resourcesFlag); !many {
			f.Value = &once{Value: f.Value}
		}
	})
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			_, _ = fmt.Fprint(help, "usage: "+usage+"\n\nRuns the program while this process holds the Lease.\n\n")
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return options{}, err
	}
	o.arguments = flags.Args()
	var errs []error
	errs = append(errs, o.ring.validate(o.election)...)
	flags.Visit(func(f *flag.Flag) {
		if o.ring.name == "" && ofRing.Lookup(f.Name) != nil {
			errs = append(errs, fmt.Errorf("--%s: must be set with --ring", f.Name))
		}
	})
	if o.election.Name == "" && o.ring.name == "" {
		errs = append(errs, errors.New("--lease: must name a Lease, or --ring a ring (got \"\")"))
	}
	if o.credentials != "" && o.kubeconfig != "" {
		errs = append(errs, fmt.Errorf("--credentials: must not be set with --kubeconfig (got %q and %q)",
			o.credentials, o.kubeconfig))
	}
	if o.grace < 0 {
		errs = append(errs, fmt.Errorf("--grace: must not be negative (got %v)", o.grace))
	}
	if *stop != "" {
		var err error
		if o.stop, err = signalOf(*stop); err != nil {
			errs = append(errs, fmt.Errorf("--stop-signal: %w", err))
		}
	}
	if o.probes != "" {
		if _, _, err := net.SplitHostPort(o.probes); err != nil {
			errs = append(errs, fmt.Errorf("--health-address: must be host:port or :port (got %q)", o.probes))
		}
	}
	if o.after != "" && o.election.PodUID != "" {
		errs = append(errs, errors.New("--after: must not be set with --pod-uid: when a container has ended, others "+
			"would lead before this host is cleared"))
	}
	if len(o.arguments) == 0 {
		errs = append(errs, errors.New("PROGRAM: must be given after --"))
	}
	return o, errors.Join(errs...)
}

// once is a flag that may be given only once, because with two Leases it would be unclear which one is held.
type once struct {
	flag.Value // nil in the zero value, which package flag makes to know what a default is
	given      bool
}

func (o *once) Set(value string) error {
	if o.given {
		return errors.New("must be given once")
	}
	o.given = true
	return o.Value.Set(value)
}

// IsBoolFlag has package flag accept a flag without a value, if it may be given so.
func (o *once) IsBoolFlag() bool {
	b, ok := o.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func (o *once) String() string {
	if o.Value == nil {
		return ""
	}
	return o.Value.String()
}

// find sets the path of the program, without which nothing may be written.
func (o *options) find() (err error) {
	for flag, command := range map[string]string{"--health-command": o.health, "--after": o.after} {
		if command == "" {
			continue
		}
		if _, err := exec.LookPath(shell); err != nil {
			return fmt.Errorf("%s: needs a shell: %w", flag, err)
		}
	}
	o.program, err = exec.LookPath(o.arguments[0])
	return err
}

// shell runs the commands that flags give.
const shell = "/bin/sh"

// cluster returns the configuration of clients, as kubectl finds it unless --credentials is set, and the flag that it
// is from.
func (o *options) cluster() (config clientcmd.ClientConfig, flag string, err error) {
	if o.credentials != "" {
		config, err = o.inPod()
		return config, "--credentials", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	return config, "--kubeconfig", nil
}

// inPod is what client-go does in a Pod, with another directory.
func (o *options) inPod() (clientcmd.ClientConfig, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set, as in a Pod")
	}
	namespace, err := os.ReadFile(filepath.Join(o.credentials, "namespace"))
	if err != nil {
		return nil, err
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["pod"] = &clientcmdapi.Cluster{
		Server: "https://" + net.JoinHostPort(host, port), CertificateAuthority: filepath.Join(o.credentials, "ca.crt"),
	}
	c.AuthInfos["pod"] = &clientcmdapi.AuthInfo{TokenFile: filepath.Join(o.credentials, "token")}
	c.Contexts["pod"] = &clientcmdapi.Context{Cluster: "pod", AuthInfo: "pod", Namespace: string(namespace)}
	c.CurrentContext = "pod"
	return clientcmd.NewDefaultClientConfig(*c, &clientcmd.ConfigOverrides{}), nil
}
