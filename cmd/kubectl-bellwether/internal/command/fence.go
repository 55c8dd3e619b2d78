package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

func (e Environment) fence() *cobra.Command {
	var confirmed bool
	c := &cobra.Command{
		Use:   "fence NODE",
		Short: "Have a fencer switch off the machine of a node that is not Ready",
		Long: "Create the NodeFence of a node that is not Ready. A fencer then waits, isolates the node and switches " +
			"its machine off, by its configuration and its limits. Without --confirm nothing is created.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := e.Connect()
			if err != nil {
				return err
			}
			if err := requireRights(c, at, cluster.FenceRights()); err != nil {
				return err
			}
			obstacle, err := at.FenceObstacle(c.Context(), args[0])
			switch {
			case err != nil:
				return err
			case obstacle != "":
				return errors.New("kubectl-bellwether: fence: nothing was created: " + obstacle)
			case !confirmed:
				_, err := fmt.Fprintf(e.Out, "Node %s would be fenced: its machine loses its power. Nothing was "+
					"created. --confirm creates NodeFence %s.\n", args[0], v1alpha1.Name(args[0]))
				return err
			}
			if err := at.Fence(c.Context(), args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.Out, "NodeFence %[1]s is created. To stop it: kubectl annotate nodefence %[1]s "+
				"%[2]s=restore\n", v1alpha1.Name(args[0]), v1alpha1.AnnotationStop)
			return err
		},
	}
	c.Flags().BoolVar(&confirmed, "confirm", false, "create the NodeFence; default: say what would be created")
	return c
}
