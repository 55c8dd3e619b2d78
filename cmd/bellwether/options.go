package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// options are the command line of bellwether run.
type options struct {
	election   leaderelection.Config
	kubeconfig string
	grace      time.Duration
	health     string
	program    string // the path of arguments[0]
	arguments  []string
}

// parse returns the options, or an error that names the flag, the value and the rule.
func parse(arguments []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bellwether run", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		_, _ = fmt.Fprint(output, "usage: bellwether run --lease NAME [flags] -- PROGRAM [arguments]\n\n"+
			"Runs the program while this process holds the Lease.\n\n")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.election.Name, "lease", "", "`name` of the Lease; required")
	flags.StringVar(&o.election.Namespace, "namespace", "",
		"`namespace` of the Lease (default: that of the Pod, or of the kubeconfig's context)")
	flags.DurationVar(&o.election.LeaseDuration, "duration", 15*time.Second,
		"how long the Lease lasts without renewal, in whole seconds")
	flags.StringVar(&o.election.Identity, "identity", "",
		"unique per process (default: the hostname and random digits)")
	flags.StringVar(&o.election.PodUID, "pod-uid", "",
		"`UID` of this Pod: others then learn from the kubelet that this container has ended")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of a kubeconfig (default: $KUBECONFIG, or in-cluster)")
	flags.DurationVar(&o.grace, "grace", 20*time.Second,
		"how long the program may take to end after SIGTERM; set a Pod's terminationGracePeriodSeconds longer by "+
			"1.6 times --duration")
	flags.StringVar(&o.health, "health-command", "",
		"`command` for sh -c before each renewal: while it fails, the Lease is not renewed. It has a tenth of "+
			"--duration")
	if err := flags.Parse(arguments); err != nil {
		return options{}, err
	}
	o.arguments = flags.Args()
	var errs []error
	if o.election.Name == "" {
		errs = append(errs, errors.New("--lease: must name a Lease (got \"\")"))
	}
	if o.grace < 0 {
		errs = append(errs, fmt.Errorf("--grace: must not be negative (got %v)", o.grace))
	}
	if len(o.arguments) == 0 {
		errs = append(errs, errors.New("PROGRAM: must be given after --"))
	}
	return o, errors.Join(errs...)
}

// find sets the path of the program. Without it, nothing may be written.
func (o *options) find() (err error) {
	if o.health != "" {
		if _, err := exec.LookPath(shell); err != nil {
			return fmt.Errorf("--health-command: needs a shell: %w", err)
		}
	}
	o.program, err = exec.LookPath(o.arguments[0])
	return err
}

// shell runs the health command.
const shell = "/bin/sh"

// cluster returns the configuration of clients, as kubectl finds it.
func (o *options) cluster() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
}
