package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
)

// few is how many objects a table shows unless it is wide.
const few = 10

func (e Environment) ring() *cobra.Command {
	o := &output{Environment: e}
	var w watching
	var f ringFlags
	c := &cobra.Command{
		Use:   "ring RING",
		Short: "Show the shards of a ring, their objects, what is drained and what no shard has",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, q, err := f.connect(e, c, args[0])
			if err != nil {
				return err
			}
			return o.show(c.Context(), w, at.Now, func() (page, error) {
				var rights cluster.Rights
				r, err := readRing(c.Context(), at, q, &rights)
				if err != nil {
					return page{}, err
				}
				return page{
					value: r.Ring, notes: notesOf(r, q),
					tables: func(s sheet) []*table.Table { return ringTables(r, s) },
				}, rights.Err()
			})
		},
	}
	o.addFlag(c)
	w.addFlags(c)
	f.addWhere(c)
	f.addSelector(c)
	return c
}

// readRing reads a ring. One without a Lease of a shard may have objects, which are orphans.
func readRing(ctx context.Context, at Connection, q cluster.RingQuery, rights *cluster.Rights) (cluster.Read, error) {
	r, err := at.Ring(ctx, q, rights)
	if errors.Is(err, cluster.ErrNoRing) && len(r.Objects) > 0 {
		err = nil
	}
	if err != nil {
		err = errors.Join(err, rights.Err())
	}
	return r, err
}

func ringTables(r cluster.Read, on sheet) []*table.Table {
	shards := &table.Table{
		Title: fmt.Sprintf("RING %s in namespace %s", r.Name, r.Namespace), None: "no shards",
		Columns: []string{
			"SHARD", "STATE", "WEIGHT", "SHARE", "OBJECTS", "CHILDREN", "DRAINING", "RENEWED", "VERSION",
		},
	}
	if on.wide {
		shards.Columns = append(shards.Columns, "DURATION", "EPOCH", "POD", "PROBLEM")
	}
	for _, s := range r.Shards {
		row := []any{
			s.Name, stateCell(s), weightCell(s), percent(s.Share), s.Objects, s.Children, s.Draining,
			on.age(s.Renewed), s.Version,
		}
		if on.wide {
			row = append(row, seconds(s.Duration), s.Epoch, s.Pod, cmp.Or(s.Problem, s.WeightProblem))
		}
		shards.Row(row...)
	}
	sharder := &table.Table{Title: "SHARDER", None: "none is elected", Columns: []string{"LEADER", "STATE", "RENEWED"}}
	if s := r.Sharder; s != nil {
		sharder.Row(on.holder(s.Holder), electionCell(*s), on.age(s.Renewed))
	}
	resources := &table.Table{
		Title: "RESOURCES", None: "no objects", Columns: []string{"RESOURCE", "OBJECTS", "CHILDREN"},
	}
	for _, count := range r.Resources {
		resources.Row(count.Resource, count.Objects, count.Children)
	}
	drains := &table.Table{
		Title: fmt.Sprintf("DRAINS (%d)", len(r.Drains)), None: "none",
		Columns: []string{"OBJECT", "FROM", "TO", "SINCE"},
	}
	for i, d := range r.Drains {
		if i == few && !on.wide {
			drains.Row("…", "", "", "")
			break
		}
		from := d.Shard
		if d.Owner != nil {
			from = d.Owner.Shard
		}
		drains.Row(objectName(d.Object), from, d.To, on.age(d.Since))
	}
	all := []*table.Table{shards, sharder, resources, drains}
	orphans := orphansTable(r.Orphans, on)
	orphans.Title = fmt.Sprintf("ORPHANS (%d)", len(r.Orphans))
	return append(all, orphans)
}

// weightCell shows the weight of a shard, and its own if an administrator has given it another one.
func weightCell(s view.Shard) table.Cell {
	switch {
	case s.WeightProblem != "":
		return table.Cell{Text: fmt.Sprintf("%d (annotation ignored)", s.Weight), Colour: table.Bad}
	case s.OwnWeight != nil:
		return table.Cell{Text: fmt.Sprintf("%d (own %d)", s.Weight, *s.OwnWeight), Colour: table.Warning}
	}
	return table.Cell{Text: strconv.Itoa(s.Weight)}
}

func percent(share float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0") + "%"
}

func objectName(o view.Object) string {
	if o.Namespace == "" {
		return o.Resource + "/" + o.Name
	}
	return o.Namespace + " " + o.Resource + "/" + o.Name
}

func orphansTable(orphans []view.Orphan, on sheet) *table.Table {
	t := &table.Table{None: "none", Columns: []string{"OBJECT", "WHY"}}
	for i, o := range orphans {
		if i == few && !on.wide {
			t.Row("…", "")
			break
		}
		t.Row(objectName(o.Object), table.Cell{Text: o.Why, Colour: table.Warning})
	}
	return t
}

func (e Environment) orphans() *cobra.Command {
	o := &output{Environment: e}
	var f ringFlags
	c := &cobra.Command{
		Use:   "orphans RING",
		Short: "Show all objects of a ring that no living shard owns, and why",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, q, err := f.connect(e, c, args[0])
			if err != nil {
				return err
			}
			return o.show(c.Context(), watching{}, at.Now, func() (page, error) {
				var rights cluster.Rights
				r, err := readRing(c.Context(), at, q, &rights)
				if err != nil {
					return page{}, err
				}
				return page{
					value: map[string]any{"orphans": r.Orphans}, notes: notesOf(r, q),
					tables: func(s sheet) []*table.Table {
						s.wide = true
						return []*table.Table{orphansTable(r.Orphans, s)}
					},
				}, rights.Err()
			})
		},
	}
	o.addFlag(c)
	f.addWhere(c)
	f.addSelector(c)
	return c
}
