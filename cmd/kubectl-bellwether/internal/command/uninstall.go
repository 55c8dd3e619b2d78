package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/sharder"
)

func (e Environment) uninstall() *cobra.Command {
	o := &output{Environment: e}
	var f ringFlags
	var confirmed bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "uninstall RING",
		Short: "Remove a ring's labels, records, Leases and history, when all its replicas have ended",
		Long: "Remove a ring's labels and records from its objects, and its Leases and its history. Without " +
			"--confirm it shows what would be removed, and changes nothing. End all replicas first.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, q, err := f.connect(e, c, args[0])
			if err != nil {
				return err
			}
			u := cluster.Uninstall{Query: q, Timeout: timeout, Sure: f.election != "", Logger: warnings(e.ErrOut)}
			if err := u.Look(c.Context(), at.Cluster); err != nil {
				return err
			}
			if err := o.print(uninstallPage(u, confirmed), at.Now()); err != nil {
				return err
			}
			obstacles := u.Obstacles()
			switch {
			case len(obstacles) > 0:
				return fmt.Errorf("kubectl-bellwether: uninstall: nothing was changed:\n  %s",
					strings.Join(obstacles, "\n  "))
			case !confirmed:
				return nil
			}
			if err := requireRights(c, at, u.Rights()); err != nil {
				return err
			}
			if err := u.Run(c.Context(), at.Cluster, at.Config); err != nil {
				return err
			}
			to := e.Out
			if o.forPrograms() {
				to = e.ErrOut
			}
			_, err = fmt.Fprintf(to, "\nRing %s is removed.\n", args[0])
			return err
		},
	}
	o.addFlag(c)
	f.addWhere(c)
	c.Flags().BoolVar(&confirmed, "confirm", false, "remove it; default: show what would be removed")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Minute,
		"how long to wait for the election, and for the proof that all shards have ended")
	return c
}

func uninstallPage(u cluster.Uninstall, confirmed bool) page {
	p := page{value: u.Read.Ring, tables: func(sheet) []*table.Table {
		t := &table.Table{None: "nothing", Columns: []string{"WHAT", "REMOVED"}}
		for _, c := range u.Read.Resources {
			t.Row(c.Resource, fmt.Sprintf("labels and records of %d", c.Objects+c.Children))
		}
		for _, s := range u.Read.Shards {
			t.Row("lease/"+s.Name, "the Lease of a shard that is "+s.State)
		}
		switch {
		case u.Read.Sharder == nil:
		case u.Stays():
			t.Row("lease/"+u.Query.Election, "stays: delete it if only this ring's sharder was elected on it")
		default:
			t.Row("lease/"+u.Query.Election, "the Lease of the sharder's election, "+u.Read.Sharder.State)
		}
		t.Row("configmap/"+sharder.HistoryName(u.Query.Ring), "the history, if there is one")
		return []*table.Table{t}
	}}
	if !confirmed {
		p.notes = append(p.notes, "Nothing was changed. --confirm removes it.")
	}
	return p
}

// requireRights returns an error with all rights that are missing.
func requireRights(c *cobra.Command, at Connection, rights []cluster.Right) error {
	missing, err := at.Review(c.Context(), rights)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return &cluster.MissingError{Rights: missing}
	}
	return nil
}

// warnings prints what a person has to know, without the time.
func warnings(w io.Writer) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "message", ConsoleSeparator: " "})
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(w), zap.WarnLevel))
}
