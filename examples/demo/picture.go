package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// In points.
const (
	pictureWidth  vg.Length = 640
	pictureHeight vg.Length = 330
	legendWidth   vg.Length = 110
	margin        vg.Length = 10
)

// Colours that people with colour blindness can distinguish.
var (
	ink     = color.RGBA{0x33, 0x33, 0x33, 0xff}
	pale    = color.RGBA{0xd5, 0xd5, 0xd5, 0xff}
	colours = []color.Color{
		color.RGBA{0x00, 0x72, 0xb2, 0xff},
		color.RGBA{0xe6, 0x9f, 0x00, 0xff},
		color.RGBA{0x00, 0x9e, 0x73, 0xff},
		color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	}
)

// band is a layer of the picture: the objects of one kind, upon those of the layers before.
type band struct {
	colour color.Color
	height func(c count) int
}

// bands are, for each shard, the objects that it works on and upon them those that wait, and last
// those without a shard.
func bands(shards []string) []band {
	var all []band
	for i, shard := range shards {
		all = append(all,
			band{colours[i%len(colours)], func(c count) int { return c.works[shard] }},
			band{pale, func(c count) int { return c.waiting[shard] }})
	}
	return append(all, band{pale, func(c count) int { return c.waiting[""] }})
}

// picture draws which shards had the objects over time, as SVG.
func picture(shards []string, counts []count, marks []mark) ([]byte, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "time since the start (s)", "objects"
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = every(5), every(250)
	for _, style := range []*draw.TextStyle{
		&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label,
		&p.Y.Tick.Label,
	} {
		*style = lettering(9, *style)
	}
	layers := bands(shards)
	for i := range slices.Backward(layers) { // each covers what is below it of those above
		area, err := plotter.NewPolygon(outline(counts, layers[:i+1]))
		if err != nil {
			return nil, err
		}
		area.Color = layers[i].colour
		area.LineStyle = draw.LineStyle{Color: color.White, Width: 0.5}
		p.Add(area)
	}
	p.X.Min, p.Y.Min = 0, 0
	canvas := vgsvg.New(pictureWidth, pictureHeight)
	all := draw.New(canvas)
	all.FillPolygon(color.White,
		[]vg.Point{{}, {X: pictureWidth}, {X: pictureWidth, Y: pictureHeight}, {Y: pictureHeight}})
	inner := draw.Crop(all, margin, -margin, margin, -margin)
	title := lettering(11, p.Title.TextStyle)
	title.Font.Weight = font.WeightBold
	title.XAlign, title.YAlign = draw.XLeft, draw.YTop
	inner.FillText(title, vg.Point{X: inner.Min.X, Y: inner.Max.Y},
		fmt.Sprintf("%d objects, and the shards that work on them", objectCount))
	left := draw.Crop(inner, 0, -legendWidth, 0, -2*title.Font.Size)
	above := newCaptions(marks, lettering(8, p.Title.TextStyle))
	above.place(p, left)
	p.Add(above)
	left = draw.Crop(left, 0, 0, 0, -above.height())
	p.Draw(left)
	legend(shards).Draw(draw.Crop(p.DataCanvas(left), p.DataCanvas(left).Size().X+margin, legendWidth, 0, 0))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	// Where that font is not installed, others have letters of the same widths.
	return bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arimo,Helvetica,Arial,sans-serif;")), nil
}

// outline is the shape from zero to the top of these layers.
func outline(counts []count, layers []band) plotter.XYs {
	var shape plotter.XYs
	for _, c := range counts {
		top := 0
		for _, layer := range layers {
			top += layer.height(c)
		}
		shape = append(shape, plotter.XY{X: c.at.Seconds(), Y: float64(top)})
	}
	if len(shape) == 0 {
		return nil
	}
	return append(shape, plotter.XY{X: shape[len(shape)-1].X}, plotter.XY{X: shape[0].X})
}

// lettering returns a style with our letters.
func lettering(size vg.Length, style draw.TextStyle) draw.TextStyle {
	style.Font.Size, style.Font.Variant, style.Color = size, "Sans", ink
	return style
}

// every puts ticks with their values step apart.
func every(step float64) plot.Ticker {
	return plot.TickerFunc(func(least, most float64) []plot.Tick {
		var ticks []plot.Tick
		for at := math.Ceil(least/step) * step; at <= most; at += step {
			ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprint(at)})
		}
		return ticks
	})
}

// legend names the shards of the colours, in the order of the layers.
func legend(shards []string) *plot.Legend {
	l := plot.NewLegend()
	l.TextStyle = lettering(9, l.TextStyle)
	l.Top, l.Left, l.Padding = true, true, 4
	l.ThumbnailWidth = 12
	l.Add("waiting for a shard", &plotter.Polygon{Color: pale})
	for i, shard := range slices.Backward(shards) {
		l.Add(fmt.Sprintf("shard %s", shard), &plotter.Polygon{Color: colours[i%len(colours)]})
	}
	return &l
}
