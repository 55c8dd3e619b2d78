package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/cluster"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func (e Environment) drain() *cobra.Command {
	var f ringFlags
	var confirmed, undo bool
	c := &cobra.Command{
		Use:   "drain SHARD",
		Short: "Have a shard let go of its objects, and get no others",
		Long: "Annotate the Lease of a shard, so that the sharder gives its objects to other shards, each when the " +
			"work on it has ended, and gives it no others. The shard continues without objects, even after a " +
			"restart, until --undo. Without --confirm nothing is changed.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := e.Connect()
			if err != nil {
				return err
			}
			if err := requireRights(c, at, cluster.DrainRights(at.Namespace)); err != nil {
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
			what := "it gets objects again"
			if !undo {
				if what, err = e.drained(c.Context(), at, q, l.Name); err != nil {
					return err
				}
			}
			if confirmed {
				err = at.Drain(c.Context(), l, !undo)
			} else {
				what += ". Nothing was changed. --confirm does it"
			}
			if err == nil {
				_, err = fmt.Fprintf(e.Out, "Shard %s of ring %s: %s.\n", l.Name, q.Ring, what)
			}
			return err
		},
	}
	f.addWhere(c)
	c.Flags().BoolVar(&undo, "undo", false, "give the shard objects again")
	c.Flags().BoolVar(&confirmed, "confirm", false, "annotate the Lease; default: say what would happen")
	return c
}

// drained returns what becomes of the objects of a shard that is drained, or why it must not be.
func (e Environment) drained(ctx context.Context, at Connection, q cluster.RingQuery, shard string,
) (what string, err error) {
	var rights cluster.Rights
	r, err := at.Ring(ctx, q, &rights)
	if err := errors.Join(err, rights.Err()); err != nil {
		return "", err
	}
	if obstacle := r.DrainObstacle(shard); obstacle != "" {
		return "", fmt.Errorf("kubectl-bellwether: drain: nothing was changed: %s", obstacle)
	}
	e.say(notesOf(r, q))
	return fmt.Sprintf("its %d objects go to %s", r.Shard(shard).Objects,
		strings.Join(r.MembersBesides(shard), ", ")), nil
}
