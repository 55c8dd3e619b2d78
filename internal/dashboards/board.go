package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is a dashboard.
type board struct {
	name, title, description string
	// found is the metric whose labels are the choices of namespace and job.
	found string
	rows  []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a graph, or the present values.
type panel struct {
	title, description, unit string
	present                  bool
	queries                  []query
}

// query is an expression, in which {} stands for the choices of the dashboard, and the name of its
// lines.
type query struct{ expr, legend string }

// Units, by Grafana's names.
const (
	count    = "short"
	seconds  = "s"
	each     = "ops"
	yesOrNo  = "bool_yes_no"
	selector = `namespace=~"$namespace",job=~"$job"`
)

// Of Grafana's 24 columns.
const (
	width  = 8
	height = 7
)

func (q query) full() string {
	return strings.NewReplacer("{}", "{"+selector+"}", "{,", "{"+selector+",").Replace(q.expr)
}

// filled has values for Grafana's variables. Grafana's interval of rates is that of four scrapes.
func (q query) filled(scrapeInterval time.Duration) string {
	return strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", (4 * scrapeInterval).String()).
		Replace(q.full())
}

func (b board) panels() (all []panel) {
	for _, r := range b.rows {
		all = append(all, r.panels...)
	}
	return all
}

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// build makes it of the types that all versions of Grafana read; the SDK recommends those of version 2.
//
//nolint:staticcheck // deprecated for that
func (b board) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(b.title).Uid("bellwether-"+b.name).Description(b.description).
		Tags([]string{"bellwether"}).Time("now-3h", "now").Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(choice("namespace", fmt.Sprintf("label_values(%s, namespace)", b.found))).
		WithVariable(choice("job", fmt.Sprintf(`label_values(%s{namespace=~"$namespace"}, job)`, b.found)))
	for _, r := range b.rows {
		d.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			d.WithPanel(p.builder())
		}
	}
	return d.Build()
}

func choice(name, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Query(dashboard.StringOrMap{String: &values}).Datasource(source).
		Multi(true).IncludeAll(true).AllValue(".*").Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc)
}

func (p panel) builder() cog.Builder[dashboard.Panel] {
	if p.present {
		b := stat.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).Datasource(source).
			Span(width).Height(height).GraphMode(common.BigValueGraphModeNone)
		for i, q := range p.queries {
			b.WithTarget(q.target(i).Instant())
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.description).Unit(p.unit).Datasource(source).
		Span(width).Height(height).Min(0).ShowPoints(common.VisibilityModeNever)
	for i, q := range p.queries {
		b.WithTarget(q.target(i).Range())
	}
	return b
}

func (q query) target(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(q.full()).LegendFormat(q.legend).RefId(string(rune('A' + i))).
		Datasource(source)
}

// The panels that most metrics need.

func present(title, description, unit string, queries ...query) panel {
	return panel{title, description, unit, true, queries}
}

func graph(title, description, unit string, queries ...query) panel {
	return panel{title, description, unit, false, queries}
}

// rate is a counter per second, by labels.
func rate(title, description, counter string, by ...string) panel {
	return graph(title, description, each, query{
		sum(by) + " (rate(" + counter + "{}[$__rate_interval]))", legend(by...),
	})
}

// increase is how often something rare has happened within 15 minutes. Prometheus sees no increase
// when a series begins, as most do when a process has done something once. The first value of a
// series that is younger than that also counts.
func increase(title, description, counter string, by ...string) panel {
	of := "increase(" + counter + "{}[15m])"
	first := "(min_over_time(" + counter + "{}[15m]) unless " + counter + "{} offset 15m)"
	return graph(title, description+" Within 15 minutes.", count, query{
		sum(by) + " ((" + of + " + " + first + ") or " + of + ")", legend(by...),
	})
}

// duration has the median and the 99th percentile of a histogram, within an interval: that of rates,
// or longer for what is rare.
func duration(title, description, histogram, within string, by ...string) panel {
	p := graph(title, description, seconds)
	buckets := sum(append([]string{"le"}, by...)) + " (rate(" + histogram + "_bucket{}[" + within + "]))"
	for _, q := range []struct{ quantile, name string }{{"0.5", "median"}, {"0.99", "99 %"}} {
		p.queries = append(p.queries, query{
			"histogram_quantile(" + q.quantile + ", " + buckets + ")", legend(by...) + " " + q.name,
		})
	}
	return p
}

const (
	often  = "$__rate_interval"
	rarely = "1h"
)

// age is how long ago a time was at the last scrape. Since then it may have become later.
func age(of string) string { return "(timestamp(" + of + "{}) - " + of + "{})" }

// group are the labels of an election or a ring. A job with one of them has only the first.
const group = "job, election, ring"

func sum(by []string) string {
	return "sum by (" + strings.Join(append([]string{group}, by...), ", ") + ")"
}

// legend names a group, and what else a line is of.
func legend(by ...string) string {
	text := "{{job}} {{election}}{{ring}}"
	for _, label := range by {
		text += " {{" + label + "}}"
	}
	return text
}
