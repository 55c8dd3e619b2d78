package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func (e Environment) weigh() *cobra.Command {
	var f ringFlags
	var confirmed, undo bool
	c := &cobra.Command{
		Use:   "weigh SHARD (WEIGHT | --undo)",
		Short: "Have a shard get more or fewer objects than others, or none",
		Long: fmt.Sprintf("Annotate the Lease of a shard with a weight from 0 to %d, so that the sharder gives it "+
			"that many objects, compared with others: %d is usual, and with 0 it gets none. Objects that have to move "+
			"do so when the work on them has ended. The weight stays, even after a restart of the shard, until "+
			"--undo. Without --confirm nothing is changed.", shardlease.MaxWeight, shardlease.DefaultWeight),
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			weight, err := weightOf(args[1:], undo)
			if err != nil {
				return fmt.Errorf("kubectl-bellwether: weigh: %w", err)
			}
			at, err := e.Connect()
			if err != nil {
				return err
			}
			if err := requireRights(c, at, cluster.WeighRights(at.Namespace)); err != nil {
				return err
			}
			l, err := at.ShardLease(c.Context(), at.Namespace, args[0])
			if err != nil {
				return err
			}
			q, err := f.query(at, c, l.Labels[shardlease.RingLabel])
			if err != nil {
				return err
			}
			w := weighing{q: q, shard: l.Name, weight: weight}
			if !confirmed {
				return w.show(c.Context(), e, at)
			}
			what, err := w.check(c.Context(), at)
			if err != nil {
				return err
			}
			if err := at.Weigh(c.Context(), l, weight); err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Out, what)
			return err
		},
	}
	f.addWhere(c)
	f.addKey(c)
	c.Flags().BoolVar(&undo, "undo", false, "give the shard the weight of its own configuration again")
	c.Flags().BoolVar(&confirmed, "confirm", false, "annotate the Lease; default: show what would move")
	return c
}

// weightOf returns the weight in the arguments, or nil for the shard's own.
func weightOf(args []string, undo bool) (*int, error) {
	if undo == (len(args) > 0) {
		return nil, errors.New("needs either WEIGHT or --undo")
	}
	if undo {
		return nil, nil
	}
	weight, err := shardrecord.Weight(args[0])
	if err != nil {
		return nil, fmt.Errorf("WEIGHT: %w", err)
	}
	return &weight, nil
}

// weighing is a change of a shard's weight, or with a nil weight to its own.
type weighing struct {
	q      cluster.RingQuery
	shard  string
	weight *int
}

// check returns in words what changes, or why it must not. For that it reads no objects.
func (w weighing) check(ctx context.Context, at Connection) (string, error) {
	var rights cluster.Rights
	r, err := at.Members(ctx, w.q, &rights)
	if err := errors.Join(err, rights.Err()); err != nil {
		return "", err
	}
	if obstacle := r.WeightObstacle(w.shard, w.weight); obstacle != "" {
		return "", fmt.Errorf("kubectl-bellwether: weigh: nothing was changed: %s", obstacle)
	}
	before, after := r.Shard(w.shard), r.Weighed(w.shard, w.weight).Shard(w.shard)
	return fmt.Sprintf("Shard %s of ring %s: weight %d instead of %d, %s of the objects instead of %s.", w.shard,
		r.Name, after.Weight, before.Weight, percent(after.Share), percent(before.Share)), nil
}

// show prints what would change and move.
func (w weighing) show(ctx context.Context, e Environment, at Connection) error {
	what, err := w.check(ctx, at)
	if err != nil {
		return err
	}
	var rights cluster.Rights
	r, err := at.Ring(ctx, w.q, &rights)
	if err := errors.Join(err, rights.Err()); err != nil {
		return err
	}
	p, err := view.PlanOf(r.Ring, r.Weighed(w.shard, w.weight), r.Objects)
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: weigh: %w", err)
	}
	o := output{Environment: e}
	return o.print(page{
		notes:  append(append(planNotes(p), notesOf(r, w.q)...), what+" Nothing was changed. --confirm does it."),
		tables: func(sheet) []*table.Table { return []*table.Table{planTable(p)} },
	}, at.Now())
}
