package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// Environment has the parts of the process that the commands use.
type Environment struct {
	genericiooptions.IOStreams
	// Terminal means that a person looks at Out. NoColour is the person's wish (NO_COLOR).
	Terminal, NoColour bool
	// Connect is called once the flags are known.
	Connect func() (Connection, error)
}

// Connection is an API server and the namespace that the user has chosen.
type Connection struct {
	*cluster.Cluster
	Config    *rest.Config
	Namespace string
}

// New returns the command with all subcommands. Its errors are not printed.
func New(e Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-bellwether",
		Short: "Show elections, rings of shards, endpoints and fences",
		Long: "Show elections, rings of shards, endpoints and fences. Only weigh, fence and uninstall write, and " +
			"only with --confirm.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl bellwether"},
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.ErrOut)
	root.AddCommand(e.status(), e.ring(), e.explain(), e.plan(), e.orphans(), e.fences(), e.uninstall(),
		e.weigh(), e.fence())
	return root
}

// output is how a command prints.
type output struct {
	Environment
	format string
}

// addFlag adds the flag of the format, which is checked before anything is read.
func (o *output) addFlag(c *cobra.Command) {
	c.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	c.Flags().StringVarP(&o.format, "output", "o", "", "json, yaml or wide; default: a table")
}

func (o *output) check() error {
	if !slices.Contains([]string{"", "json", "yaml", "wide"}, o.format) {
		return fmt.Errorf("kubectl-bellwether: --output: must be json, yaml or wide (got %q)", o.format)
	}
	return nil
}

// forPrograms reports whether Out gets one value, while sentences go to ErrOut.
func (o *output) forPrograms() bool { return o.format == "json" || o.format == "yaml" }

// say prints sentences beside a command's output.
func (e Environment) say(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintln(e.ErrOut, note)
	}
}

// page is something to print: a value, and its tables for people.
type page struct {
	value  any
	tables func(sheet) []*table.Table
	notes  []string // for people
}

// sheet is what tables are made for.
type sheet struct {
	wide bool
	now  time.Time // if zero, ages are left out
}

// age is the time since then.
func (s sheet) age(then time.Time) string {
	if then.IsZero() || s.now.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, s.now.Sub(then)))
}

// ofProcess matches what package leaderelection adds to the name of a host: random bytes, and in
// identities that an admission policy checks also the UID of the Pod.
var ofProcess = regexp.MustCompile(`(_[0-9a-f]{4})[0-9a-f]{12}(_[0-9a-f-]{36})?$`)

// holder shortens a holder identity to the host, as people look for it, and four digits, by which
// processes of one host differ. Wide tables have the whole identity.
func (s sheet) holder(identity string) string {
	if s.wide {
		return identity
	}
	return ofProcess.ReplaceAllString(identity, "${1}…")
}

func (o *output) render(p page, now time.Time) ([]byte, error) {
	var b bytes.Buffer
	switch o.format {
	case "json":
		encoder := json.NewEncoder(&b)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(p.value)
		return b.Bytes(), err
	case "yaml":
		return yaml.Marshal(p.value)
	}
	for i, t := range p.tables(sheet{o.format == "wide", now}) {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := t.Write(&b, o.Terminal && !o.NoColour); err != nil {
			return nil, err
		}
	}
	for _, note := range p.notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.Bytes(), nil
}

func (o *output) print(p page, now time.Time) error {
	text, err := o.render(p, now)
	if err != nil {
		return err
	}
	if o.forPrograms() {
		o.say(p.notes)
	}
	_, err = o.Out.Write(text)
	return err
}

// watching is how often a command reads again.
type watching struct {
	on       bool
	interval time.Duration
}

func (w *watching) addFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "print again when something changes, until Ctrl-C")
	c.Flags().DurationVar(&w.interval, "interval", 2*time.Second, "with --watch: how often to read")
}

// show prints what read returns. With --watch it repeats this until ctx ends: on a terminal each
// time, otherwise when more than ages has changed. The error of read is returned after its page was
// printed; while watching, it is printed when it changes.
func (o *output) show(ctx context.Context, w watching, now func() time.Time, read func() (page, error)) error {
	if !w.on {
		p, err := read()
		if p.value != nil {
			err = errors.Join(o.print(p, now()), err)
		}
		return err
	}
	if w.interval < 100*time.Millisecond {
		return fmt.Errorf("kubectl-bellwether: --interval: must be at least 100ms (got %v)", w.interval)
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	var last []byte
	said := ""
	for {
		p, err := read()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && err.Error() != said {
			_, _ = fmt.Fprintln(o.ErrOut, err)
		}
		if said = ""; err != nil {
			said = err.Error()
		}
		if p.value != nil {
			timeless, err := (&output{Environment: Environment{}, format: "wide"}).render(p, time.Time{})
			if err != nil {
				return err
			}
			if o.Terminal || !bytes.Equal(timeless, last) {
				if o.Terminal {
					_, _ = io.WriteString(o.Out, "\x1b[H\x1b[2J")
				} else if last != nil && o.format != "json" {
					_, _ = io.WriteString(o.Out, "---\n")
				}
				if err := o.print(p, now()); err != nil {
					return err
				}
			}
			last = timeless
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// ringFlags name a ring and its configuration.
type ringFlags struct {
	election   string
	resources  []string
	namespaces []string
	selector   string
	key        string
}

// addWhere adds the flags for where the objects of a ring are.
func (f *ringFlags) addWhere(c *cobra.Command) {
	f.addElection(c)
	c.Flags().StringSliceVar(&f.resources, "resource", nil,
		"resource of the ring, or of children, such as configmaps or deployments.apps; default: look in all of them")
	c.Flags().StringSliceVar(&f.namespaces, "object-namespace", nil,
		"namespace in which the ring's objects are; default: all")
}

func (f *ringFlags) addElection(c *cobra.Command) {
	c.Flags().StringVar(&f.election, "election", "",
		"name of the Lease of the sharder's election; default: the ring's name with -sharder")
}

// addSelector adds the flag for objects that no shard has had.
func (f *ringFlags) addSelector(c *cobra.Command) {
	c.Flags().StringVar(&f.selector, "selector", "",
		"with --resource: objects with these labels, or all with \"\", are of the ring even without its labels")
}

// addKey adds the flag for where on the ring an object belongs.
func (f *ringFlags) addKey(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "object", "key of the ring's resources: object or namespace")
}

// connect returns the API server, and the ring of this name there.
func (f *ringFlags) connect(e Environment, cmd *cobra.Command, name string) (Connection, cluster.RingQuery, error) {
	at, err := e.Connect()
	if err != nil {
		return at, cluster.RingQuery{}, err
	}
	q, err := f.query(at, cmd, name)
	return at, q, err
}

func (f *ringFlags) query(c Connection, cmd *cobra.Command, name string) (cluster.RingQuery, error) {
	q := cluster.RingQuery{
		Namespace: c.Namespace, Ring: name, Election: f.election, Namespaces: f.namespaces,
	}
	if q.Election == "" {
		q.Election = cluster.UsualElection(name)
	}
	for _, resource := range f.resources {
		k, err := c.KindOf(resource)
		if err != nil {
			return q, err
		}
		q.Resources = append(q.Resources, k)
	}
	switch f.key {
	case "", "object":
	case "namespace":
		q.Key = api.NamespaceKey
	default:
		return q, fmt.Errorf("kubectl-bellwether: --key: must be object or namespace (got %q)", f.key)
	}
	if given := cmd.Flags().Lookup("selector"); given != nil && given.Changed {
		if len(q.Resources) == 0 {
			return q, errors.New("kubectl-bellwether: --selector: needs --resource, because it would select all " +
				"objects of the cluster")
		}
		selector, err := labels.Parse(f.selector)
		if err != nil {
			return q, fmt.Errorf("kubectl-bellwether: --selector: %w", err)
		}
		q.Selector = selector
	}
	return q, nil
}

// notesOf returns what a reader of a ring's objects has to know.
func notesOf(r cluster.Read, q cluster.RingQuery) (notes []string) {
	if len(r.Others) > 0 && len(q.Namespaces) == 0 {
		notes = append(notes, fmt.Sprintf("Other namespaces also have a ring of this name: %s. Objects of all of them "+
			"are counted. --object-namespace names those of this ring.", strings.Join(r.Others, ", ")))
	}
	if len(r.Narrowed) > 0 {
		notes = append(notes, fmt.Sprintf("Only in namespace %s, because you may not list them cluster-wide: %s.",
			r.Namespace, strings.Join(r.Narrowed, ", ")))
	}
	var unread []string
	for _, right := range r.Unread {
		unread = append(unread, right.Resource.String())
	}
	slices.Sort(unread)
	if len(unread) > 0 {
		notes = append(notes, fmt.Sprintf("Not looked for, because you may not list them: %s. If the ring has "+
			"such objects, they are missing here. --resource names what it has.",
			strings.Join(slices.Compact(unread), ", ")))
	}
	if len(r.Unserved) > 0 {
		notes = append(notes, fmt.Sprintf("Not found by the API server, which has named them: %s. If the ring has "+
			"such objects, they are missing here.", strings.Join(r.Unserved, ", ")))
	}
	return notes
}

func stateCell(s view.Shard) table.Cell {
	c := table.Cell{Text: s.State, Colour: table.Bad}
	switch s.State {
	case "Ready":
		c.Colour = table.Good
	case "Away", "Expired", "Uncertain":
		c.Colour = table.Warning
	case "Dead", "Orphaned":
		c.Colour = table.Plain
	}
	if s.Leaving {
		c.Text += ",leaving"
	}
	if s.Idle {
		c.Text += ",idle"
	}
	return c
}
