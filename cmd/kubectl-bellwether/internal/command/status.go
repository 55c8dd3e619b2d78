package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/table"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
)

func (e Environment) status() *cobra.Command {
	o := &output{Environment: e}
	var w watching
	var all bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show elections, rings, endpoints and fences in one screen",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := e.Connect()
			if err != nil {
				return err
			}
			namespace := at.Namespace
			if all {
				namespace = ""
			}
			return o.show(c.Context(), w, at.Now, func() (page, error) {
				var rights cluster.Rights
				s, err := at.Status(c.Context(), namespace, &rights)
				if err != nil {
					return page{}, err
				}
				return page{
					value: s, tables: func(on sheet) []*table.Table { return statusTables(s, on) },
				}, rights.Err()
			})
		},
	}
	o.addFlag(c)
	w.addFlags(c)
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "in all namespaces")
	return c
}

func statusTables(s view.Status, on sheet) []*table.Table {
	elections := &table.Table{
		Title: "ELECTIONS", None: "none",
		Columns: []string{"NAMESPACE", "NAME", "STATE", "LEADER", "TERM", "SINCE", "RENEWED"},
	}
	if on.wide {
		elections.Columns = append(elections.Columns, "KIND", "DURATION", "ADDRESS")
	}
	for _, e := range s.Elections {
		row := []any{
			e.Namespace, e.Name, electionCell(e), on.holder(e.Holder), fmt.Sprint(e.Transitions),
			on.age(e.Acquired), on.age(e.Renewed),
		}
		if on.wide {
			row = append(row, e.Kind, seconds(e.Duration), e.Address)
		}
		elections.Row(row...)
	}
	rings := &table.Table{
		Title: "RINGS", None: "none", Columns: []string{"NAMESPACE", "NAME", "READY", "DEAD", "SHARDER"},
	}
	for _, r := range s.Rings {
		ready := table.Cell{Text: fmt.Sprintf("%d/%d", r.Ready, r.Members), Colour: table.Good}
		if r.Drained > 0 {
			ready.Text += fmt.Sprintf(", %d drained", r.Drained)
		}
		if r.Idle > 0 {
			ready.Text += fmt.Sprintf(", %d idle", r.Idle)
		}
		if r.Ready < r.Members || r.Members == 0 {
			ready.Colour = table.Warning
		}
		sharder := table.Cell{Text: on.holder(r.Sharder)}
		if r.Sharder == "" {
			sharder = table.Cell{Text: "none", Colour: table.Bad}
		}
		rings.Row(r.Namespace, r.Name, ready, r.Others, sharder)
	}
	services := &table.Table{
		Title: "ENDPOINTS", None: "none", Columns: []string{"NAMESPACE", "SERVICE", "PUBLISHED", "PORTS"},
	}
	if on.wide {
		services.Columns = append(services.Columns, "ADDRESSES")
	}
	for _, v := range s.Services {
		published := table.Cell{Text: fmt.Sprint(len(v.Addresses)), Colour: table.Good}
		if len(v.Addresses) == 0 {
			published.Colour = table.Bad
		}
		row := []any{v.Namespace, v.Name, published, strings.Join(v.Ports, ", ")}
		if on.wide {
			row = append(row, strings.Join(v.Addresses, ", "))
		}
		services.Row(row...)
	}
	fences := fencesTable(s.Fences, on)
	fences.Title = "FENCES"
	all := []*table.Table{elections, rings, services, fences}
	if len(s.Flows) > 0 {
		all = append(all, flowsTable(s.Flows))
	}
	return all
}

func flowsTable(flows []view.Flow) *table.Table {
	t := &table.Table{Title: "FLOW CONTROL", Columns: []string{"NAMESPACE", "FLOWSCHEMA OF LEASES"}}
	for _, f := range flows {
		schema := table.Cell{Text: f.FlowSchema, Colour: table.Good}
		if f.FlowSchema == "" {
			schema = table.Cell{Text: "none: a program's other requests can delay its renewals", Colour: table.Warning}
		}
		t.Row(f.Namespace, schema)
	}
	return t
}

func electionCell(e view.Election) table.Cell {
	switch e.State {
	case view.Held, view.ForLife:
		return table.Cell{Text: e.State, Colour: table.Good}
	case view.Expired:
		return table.Cell{Text: e.State, Colour: table.Bad}
	}
	return table.Cell{Text: e.State, Colour: table.Warning}
}

func seconds(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%ds", n)
}

func (e Environment) fences() *cobra.Command {
	o := &output{Environment: e}
	c := &cobra.Command{
		Use:   "fences",
		Short: "Show the fences of nodes, and what they wait for",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := e.Connect()
			if err != nil {
				return err
			}
			return o.show(c.Context(), watching{}, at.Now, func() (page, error) {
				var rights cluster.Rights
				fences, err := at.Fences(c.Context(), &rights)
				if err != nil {
					return page{}, err
				}
				return page{
					value:  map[string]any{"fences": fences},
					tables: func(s sheet) []*table.Table { return []*table.Table{fencesTable(fences, s)} },
				}, rights.Err()
			})
		},
	}
	o.addFlag(c)
	return c
}

func fencesTable(fences []view.Fence, on sheet) *table.Table {
	t := &table.Table{
		None: "none", Columns: []string{"NODE", "PHASE", "INCIDENT", "RELEASED", "SINCE", "WAITS FOR"},
	}
	if on.wide {
		t.Columns = append(t.Columns, "CREATED")
	}
	for _, f := range fences {
		phase := table.Cell{Text: f.Phase, Colour: table.Warning}
		switch {
		case f.Phase == "GivenUp":
			phase.Colour = table.Bad
		case f.Ended:
			phase.Colour = table.Good
		}
		released := "no"
		if f.Released {
			released = "yes"
		}
		row := []any{f.Node, phase, f.Incident, released, on.age(f.Since), f.Wait()}
		if on.wide {
			row = append(row, on.age(f.Created))
		}
		t.Row(row...)
	}
	return t
}
