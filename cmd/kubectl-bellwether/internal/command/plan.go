package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func (e Environment) plan() *cobra.Command {
	o := &output{Environment: e}
	var f ringFlags
	var change view.Change
	c := &cobra.Command{
		Use:   "plan RING (--without SHARD | --with SHARD)...",
		Short: "Show what would move if shards joined or left a ring",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(change.Without)+len(change.With) == 0 {
				return errors.New("kubectl-bellwether: plan: needs --without or --with")
			}
			at, q, err := f.connect(e, c, args[0])
			if err != nil {
				return err
			}
			return o.show(c.Context(), watching{}, at.Now, func() (page, error) {
				var rights cluster.Rights
				r, err := at.Ring(c.Context(), q, &rights)
				if err := errors.Join(err, rights.Err()); err != nil {
					return page{}, err
				}
				after, err := r.Changed(change)
				if err != nil {
					return page{}, fmt.Errorf("kubectl-bellwether: plan: %w", err)
				}
				p, err := view.PlanOf(r.Ring, after, r.Objects)
				if err != nil {
					return page{}, fmt.Errorf("kubectl-bellwether: plan: %w", err)
				}
				return page{
					value: p, notes: append(planNotes(p), notesOf(r, q)...),
					tables: func(sheet) []*table.Table { return []*table.Table{planTable(p)} },
				}, nil
			})
		},
	}
	o.addFlag(c)
	f.addWhere(c)
	f.addKey(c)
	c.Flags().StringSliceVar(&change.Without, "without", nil, "shard that leaves")
	c.Flags().StringSliceVar(&change.With, "with", nil, "shard that joins, as name or name=weight")
	return c
}

func planTable(p view.Plan) *table.Table {
	t := &table.Table{None: "nothing moves", Columns: []string{"FROM", "TO", "OBJECTS"}}
	for _, m := range p.Moves {
		t.Row(m.From, m.To, m.Objects)
	}
	return t
}

func planNotes(p view.Plan) []string {
	notes := []string{fmt.Sprintf("%d of %d objects move, with their children. Members now: %s. Then: %s.",
		p.Objects-p.Stay, p.Objects, membersText(p.Before), membersText(p.After))}
	switch {
	case p.Misfits():
		notes = append(notes, fmt.Sprintf("Warning: %d objects are not with their owner on such a ring now. Either "+
			"the ring moves them at this moment, or it has another key (--key), and this plan is wrong.", p.Displaced))
	case p.Displaced > 0:
		notes = append(notes, fmt.Sprintf("%d objects are not with their owner now, whatever changes.", p.Displaced))
	}
	return notes
}

// membersText names members, with their weights where these are not the usual one.
func membersText(weights map[string]int) string {
	names := slices.Sorted(maps.Keys(weights))
	for i, name := range names {
		if w := weights[name]; w != shardlease.DefaultWeight {
			names[i] = fmt.Sprintf("%s (%d)", name, w)
		}
	}
	return strings.Join(names, ", ")
}
