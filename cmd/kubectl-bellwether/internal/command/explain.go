package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
)

// explaining is what a call of the command explain asks for.
type explaining struct {
	ringFlags
	ring, ringNamespace string
}

func (e Environment) explain() *cobra.Command {
	o := &output{Environment: e}
	var x explaining
	c := &cobra.Command{
		Use:     "explain RESOURCE/NAME",
		Short:   "Show which shard owns an object, why, since when, and what the object waits for",
		Example: "  kubectl bellwether explain configmap/x -n default",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			resource, name, ok := strings.Cut(strings.Join(args, "/"), "/")
			if !ok || resource == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("kubectl-bellwether: explain: needs RESOURCE/NAME, such as configmap/x (got %q)",
					args)
			}
			at, err := e.Connect()
			if err != nil {
				return err
			}
			return o.show(c.Context(), watching{}, at.Now, func() (page, error) {
				explanations, err := x.read(c, at, resource, name)
				if err != nil {
					return page{}, err
				}
				return page{
					value: map[string]any{"explanations": explanations},
					tables: func(s sheet) (all []*table.Table) {
						for _, x := range explanations {
							all = append(all, explanationTable(x, s.now))
						}
						return all
					},
				}, nil
			})
		},
	}
	o.addFlag(c)
	x.addElection(c)
	x.addKey(c)
	c.Flags().StringVar(&x.ring, "ring", "", "ring that should have the object; default: those of its labels")
	c.Flags().StringVar(&x.ringNamespace, "ring-namespace", "",
		"namespace of the ring's Leases; default: that of the object, or the only one with such Leases")
	return c
}

// read explains an object, once for each ring that it is of.
func (x *explaining) read(c *cobra.Command, at Connection, resource, name string) ([]view.Explanation, error) {
	var rights cluster.Rights
	k, err := at.KindOf(resource)
	if err != nil {
		return nil, err
	}
	object, err := at.Object(c.Context(), k, at.Namespace, name, &rights)
	if err != nil {
		return nil, err
	}
	var rings []string
	switch {
	case x.ring != "":
		rings = []string{x.ring}
	case object != nil:
		rings = cluster.RingsOf(object)
	}
	if object != nil && len(rings) == 0 {
		return nil, fmt.Errorf("kubectl-bellwether: %s %s has no label of a ring: either it is of none, or no sharder "+
			"has seen it yet. --ring names the ring that should have it", k.GroupResource(), name)
	}
	explanations := []view.Explanation{}
	for _, ring := range rings {
		q, err := x.find(c.Context(), c, at, ring, &rights)
		if err != nil {
			return nil, err
		}
		explanation, err := x.explain(c.Context(), at, q, k, object, &rights)
		if err != nil {
			return nil, err
		}
		explanations = append(explanations, explanation)
	}
	return explanations, rights.Err()
}

// find returns where a ring is.
func (x *explaining) find(ctx context.Context, c *cobra.Command, at Connection, ring string, rights *cluster.Rights,
) (cluster.RingQuery, error) {
	q, err := x.query(at, c, ring)
	if err != nil {
		return q, err
	}
	if q.Namespace = x.ringNamespace; q.Namespace == "" {
		q.Namespace, err = at.NamespaceOf(ctx, ring, at.Namespace, rights)
	}
	return q, err
}

// explain explains an object in a ring. A nil object may not be read, so that only the other rights
// are found out.
func (x *explaining) explain(ctx context.Context, at Connection, q cluster.RingQuery, k view.Kind,
	object *metav1.PartialObjectMetadata, rights *cluster.Rights,
) (view.Explanation, error) {
	if object != nil {
		return at.Explain(ctx, q, k, object, rights)
	}
	_, err := at.Members(ctx, q, rights)
	if errors.Is(err, cluster.ErrNoRing) {
		err = nil
	}
	return view.Explanation{}, err
}

func explanationTable(x view.Explanation, now time.Time) *table.Table {
	t := &table.Table{Title: x.Object, Columns: []string{"ring", x.Ring + " in namespace " + x.Namespace}}
	if x.Root != "" {
		t.Row("follows", x.Root)
	}
	switch {
	case x.Owner == "":
		t.Row("owner", table.Cell{Text: "none: it has no valid record", Colour: table.Warning})
	case x.Free:
		t.Row("owner", table.Cell{Text: "none: " + x.Owner + " has let go of it", Colour: table.Warning})
	default:
		t.Row("owner", fmt.Sprintf("%s (%s), in epoch %d", x.Owner, x.OwnerState, x.Epoch))
	}
	if x.Label != x.Owner && !x.Free {
		t.Row("label", table.Cell{Text: "of " + cmp.Or(x.Label, "no shard"), Colour: table.Warning})
	}
	t.Row("place", cmp.Or(x.Place, "none"))
	if !x.Since.IsZero() {
		t.Row("since", fmt.Sprintf("%s or longer: the record's writer last changed the object then",
			duration.HumanDuration(max(0, now.Sub(x.Since)))))
	}
	t.Row("step", x.Step)
	t.Row("why", x.Why)
	if len(x.Waits) == 0 {
		t.Row("waits for", table.Cell{Text: "nothing", Colour: table.Good})
	}
	for _, w := range x.Waits {
		t.Row("waits for", table.Cell{Text: w, Colour: table.Warning})
	}
	return t
}
