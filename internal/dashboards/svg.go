package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// svg is a picture, in pixels from the upper left corner.
type svg struct{ body bytes.Buffer }

// point is in pixels.
type point struct{ x, y float64 }

// Letters.
const (
	typeface = "Liberation Sans,Arimo,Helvetica,Arial,sans-serif" // all of the same widths
	ink      = "#333333"
	pale     = "#d5d5d5"
	faint    = "#767676"
)

// letterWidth is that of most letters, as a part of their size.
const letterWidth = 0.5

func (s *svg) text(at point, size float64, colour, attributes, text string) {
	fmt.Fprintf(&s.body, `<text x="%s" y="%s" font-size="%s" fill="%s"%s>%s</text>`+"\n", short(at.x), short(at.y),
		short(size), colour, attributes, escaped(text))
}

// Attributes of texts.
const (
	bold     = ` font-weight="bold"`
	leftward = ` text-anchor="end"`
	centred  = ` text-anchor="middle"`
)

// line draws a line through points. Pattern is that of dashes, empty for none.
func (s *svg) line(colour string, width float64, pattern string, points ...point) {
	if len(points) == 1 {
		fmt.Fprintf(&s.body, `<circle cx="%s" cy="%s" r="%s" fill="%s"/>`+"\n", short(points[0].x), short(points[0].y),
			short(width), colour)
		return
	}
	var all []string
	for _, p := range points {
		all = append(all, short(p.x)+","+short(p.y))
	}
	if pattern != "" {
		pattern = ` stroke-dasharray="` + pattern + `"`
	}
	fmt.Fprintf(&s.body, `<polyline fill="none" stroke="%s" stroke-width="%s"%s points="%s"/>`+"\n", colour,
		short(width), pattern, strings.Join(all, " "))
}

// file is the picture as a file, with a white ground.
func (s *svg) file(width, height float64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" `+
		`font-family="%[3]s">`+"\n"+`<rect width="%[1]s" height="%[2]s" fill="#ffffff"/>`+"\n", short(width),
		short(height), typeface)
	b.Write(s.body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// short is a number with at most one decimal.
func short(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}
