package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// captions draws a line for each mark, with a caption above the picture.
type captions struct {
	marks []mark // in the order of time
	style draw.TextStyle
	rows  []int // of each mark, from the lowest
}

const (
	captionLines = 2
	captionGap   = 8   // points between two captions
	strangers    = 1.1 // how much wider the letters are where ours are not installed
)

func newCaptions(marks []mark, style draw.TextStyle) *captions {
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	return &captions{marks: marks, style: style}
}

func (m mark) lines() [captionLines]string {
	return [captionLines]string{m.name, fmt.Sprintf("%d moved in %.1f s", m.objects, m.took.Seconds())}
}

// place chooses the row of each caption, for a plot on a canvas of this width.
func (cs *captions) place(p *plot.Plot, c draw.Canvas) {
	data := p.DataCanvas(c)
	x, _ := p.Transforms(&data)
	var from, wide []vg.Length
	for _, m := range cs.marks {
		from = append(from, x(m.at.Seconds()))
		widest := vg.Length(0)
		for _, line := range m.lines() {
			widest = max(widest, cs.style.Width(line))
		}
		wide = append(wide, widest*strangers+captionGap)
	}
	cs.rows = rows(from, wide)
}

// rows puts captions with these positions and widths into rows, so that none overlaps another or
// the line below a later one. Of two that would, the earlier is above.
func rows(from, wide []vg.Length) []int {
	placed := make([]int, len(from))
	var begin []vg.Length // of what is in a row
	for i := len(from) - 1; i >= 0; i-- {
		row := 0
		for row < len(begin) && from[i]+wide[i] > begin[row] {
			row++
		}
		if row == len(begin) {
			begin = append(begin, 0)
		}
		// Nor may what comes before it cross the line below it.
		for below := range row + 1 {
			begin[below] = from[i]
		}
		placed[i] = row
	}
	return placed
}

func (cs *captions) rowHeight() vg.Length { return captionLines*cs.style.Font.Size*1.2 + captionGap/2 }

// height is the height of the captions above the picture.
func (cs *captions) height() vg.Length {
	top := 0
	for _, row := range cs.rows {
		top = max(top, row+1)
	}
	return vg.Length(top) * cs.rowHeight()
}

// Plot implements plot.Plotter.
func (cs *captions) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for i, m := range cs.marks {
		at, bottom := x(m.at.Seconds()), c.Max.Y+vg.Length(cs.rows[i])*cs.rowHeight()+captionGap/2
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.8, Dashes: []vg.Length{3, 2}}, at, c.Min.Y, at, c.Max.Y)
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.8}, at, c.Max.Y, at, bottom+cs.rowHeight()-captionGap/2)
		for n, line := range m.lines() {
			c.FillText(cs.style, vg.Point{X: at + 3, Y: bottom + vg.Length(captionLines-1-n)*cs.style.Font.Size*1.2},
				line)
		}
	}
}
