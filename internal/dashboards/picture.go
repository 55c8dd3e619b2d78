package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// In pixels.
const (
	pageWidth   = 960.0
	margin      = 16.0
	gap         = 18.0 // between panels
	perRow      = 3
	panelWidth  = (pageWidth - 2*margin - (perRow-1)*gap) / perRow
	axisWidth   = 42.0
	graphHeight = 105.0
	lineHeight  = 13.0
	titleSize   = 11.5
	textSize    = 10.0
)

// colours are those of the picture of the demo, and more that people with colour blindness can
// distinguish.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#555555"}

// noData is what a panel says whose queries have no answer.
const noData = "no data"

// picture draws a board with the data of a recording.
func (r *recording) picture(ctx context.Context, e *promql.Engine, b board) ([]byte, error) {
	var d drawing
	d.recording = r
	d.text(point{margin, 28}, 16, ink, bold, b.title)
	jobs := map[string]bool{}
	var rows [][]answered
	for _, row := range b.rows {
		for panels := range slices.Chunk(row.panels, perRow) {
			var all []answered
			for _, p := range panels {
				a, err := r.answer(ctx, e, p)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", p.title, err)
				}
				for _, c := range a.curves {
					jobs[c.job] = true
				}
				all = append(all, a)
			}
			rows = append(rows, all)
		}
	}
	all, err := r.during(ctx, e, b.found, r.start, r.end, liveInterval)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		jobs[s.Metric.Get("job")] = true
	}
	for _, event := range r.events {
		if jobs[event.job] {
			d.events = append(d.events, event)
		}
	}
	y := d.list(46)
	next := 0
	for _, row := range b.rows {
		d.line(pale, 1, "", point{margin, y + 6}, point{pageWidth - margin, y + 6})
		d.text(point{margin, y + 24}, 13, ink, bold, row.title)
		y += 34
		for range slices.Chunk(row.panels, perRow) {
			lowest := y
			for i, a := range rows[next] {
				lowest = max(lowest, d.panel(point{margin + float64(i)*(panelWidth+gap), y}, a))
			}
			next++
			y = lowest + 8
		}
	}
	return d.file(pageWidth, y+margin), nil
}

// answered is a panel with what its queries have answered.
type answered struct {
	panel
	curves []curve
}

// curve is a series, with its name in the legend.
type curve struct {
	name, job string
	values    []promql.FPoint
}

// answer asks the queries of a panel: over the whole time, or at its end.
func (r *recording) answer(ctx context.Context, e *promql.Engine, p panel) (answered, error) {
	a := answered{panel: p}
	for _, q := range p.queries {
		from := r.start
		if p.present {
			from = r.end
		}
		all, err := r.during(ctx, e, q.filled(liveInterval), from, r.end, liveInterval)
		if err != nil {
			return a, err
		}
		var found []curve
		for _, s := range all {
			found = append(found, curve{q.name(s.Metric), s.Metric.Get("job"), s.Floats})
		}
		slices.SortFunc(found, func(a, b curve) int { return cmp.Compare(a.name, b.name) })
		a.curves = append(a.curves, found...)
	}
	return a, nil
}

var inLegend = regexp.MustCompile(`{{(\w+)}}`)

// name is the legend of a series, without the gaps of labels that it does not have.
func (q query) name(of labels.Labels) string {
	return strings.Join(strings.Fields(inLegend.ReplaceAllStringFunc(q.legend, func(label string) string {
		return of.Get(label[2 : len(label)-2])
	})), " ")
}

// drawing is a picture with a recording's time.
type drawing struct {
	svg
	*recording
	events []event // that matter here
}

// list has the events, in two columns. It returns where the next thing may begin.
func (d *drawing) list(y float64) float64 {
	half := (len(d.events) + 1) / 2
	for i, e := range d.events {
		at := point{margin + float64(i/half)*pageWidth/2, y + float64(i%half)*lineHeight}
		d.text(point{at.x + 28, at.y}, textSize, faint, leftward, fmt.Sprintf("%.0f s", d.since(e.at)))
		d.text(point{at.x + 36, at.y}, textSize, ink, "", e.job+": "+e.what)
	}
	return y + float64(half)*lineHeight
}

func (d *drawing) since(at time.Time) float64 { return max(0, at.Sub(d.start).Seconds()) }

// panel draws one, and returns its lower edge.
func (d *drawing) panel(at point, a answered) float64 {
	d.text(point{at.x, at.y + 10}, titleSize, ink, bold, a.title)
	switch {
	case len(a.curves) == 0:
		d.text(point{at.x + axisWidth, at.y + 60}, textSize, faint, "", noData)
		return at.y + graphHeight
	case a.present:
		return d.numbers(point{at.x, at.y + 20}, a)
	}
	return d.graph(point{at.x, at.y + 20}, a)
}

// numbers are the present values.
func (d *drawing) numbers(at point, a answered) float64 {
	const columns = 2
	for i, c := range a.curves {
		p := point{at.x + float64(i%columns)*panelWidth/columns, at.y + float64(i/columns)*46}
		d.text(point{p.x, p.y + 24}, 24, colours[0], "", named(c.values[len(c.values)-1].F, a.unit))
		d.text(point{p.x, p.y + 38}, textSize, ink, "", c.name)
	}
	return at.y + float64((len(a.curves)+columns-1)/columns)*46
}

func (d *drawing) graph(at point, a answered) float64 {
	highest := 0.0
	for _, c := range a.curves {
		for _, v := range c.values {
			highest = max(highest, v.F)
		}
	}
	if a.unit == yesOrNo {
		highest = 1
	}
	values := newScale(highest, a.unit)
	left, width := at.x+axisWidth, panelWidth-axisWidth
	total := d.since(d.end)
	place := func(seconds, value float64) point {
		return point{left + width*seconds/total, at.y + graphHeight*(1-value/values.top)}
	}
	for _, v := range values.ticks() {
		if a.unit == yesOrNo && v != 0 && v != 1 {
			continue
		}
		p := place(0, v)
		d.line(pale, 0.5, "", p, place(total, v))
		d.text(point{p.x - 4, p.y + 3.5}, textSize, ink, leftward, named(v, a.unit))
	}
	for t := 0.0; t <= total; t += 20 {
		d.text(point{place(t, 0).x, at.y + graphHeight + 12}, textSize, ink, centred, fmt.Sprint(t))
	}
	for _, e := range d.events {
		d.line(faint, 0.5, "2 2", place(d.since(e.at), 0), place(d.since(e.at), values.top))
	}
	in := namesFrom(point{at.x, at.y + graphHeight + 26})
	for i, c := range a.curves {
		colour, pattern := colours[i%len(colours)], []string{"", "5 2", "2 2"}[i/len(colours)%3]
		for _, stretch := range stretches(c.values) {
			var points []point
			for _, v := range stretch {
				points = append(points, place(d.since(time.UnixMilli(v.T)), v.F))
			}
			d.line(colour, 1.5, pattern, corners(points)...)
		}
		p := in.next(c.name)
		d.line(colour, 2, pattern, point{p.x, p.y - 3.5}, point{p.x + 12, p.y - 3.5})
		d.text(point{p.x + 16, p.y}, textSize, ink, "", c.name)
	}
	return in.at.y
}

// names places names, as many in a line as there is room for.
type names struct {
	at    point // of the next one
	start float64
}

func namesFrom(at point) *names { return &names{at, at.x} }

func (l *names) next(name string) point {
	width := 16 + letterWidth*textSize*float64(len(name)) + 10
	if l.at.x > l.start && l.at.x+width > l.start+panelWidth {
		l.at = point{l.start, l.at.y + lineHeight}
	}
	p := l.at
	l.at.x += width
	return p
}

// stretches are the parts of a series without a gap.
func stretches(values []promql.FPoint) (all [][]promql.FPoint) {
	for i, v := range values {
		if i == 0 || v.T-values[i-1].T > liveInterval.Milliseconds() {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], v)
	}
	return all
}

// corners leaves out points between two others of the same height.
func corners(points []point) (kept []point) {
	same := func(a, b point) bool { return math.Abs(a.y-b.y) < 0.05 }
	for i, p := range points {
		if i > 0 && i < len(points)-1 && same(points[i-1], p) && same(p, points[i+1]) {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}
