// Package table lays out what people read: columns of equal width, and colours on a terminal.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Colour of a cell.
type Colour int

// Colours, by their meaning.
const (
	Plain Colour = iota
	Good
	Warning
	Bad
)

var codes = map[Colour]string{Good: "\x1b[32m", Warning: "\x1b[33m", Bad: "\x1b[31m"}

// Cell is a text with a colour.
type Cell struct {
	Text   string
	Colour Colour
}

// Table has columns with headings.
type Table struct {
	// Title is a line above it. Optional.
	Title string
	// None is printed in place of a table without rows.
	None    string
	Columns []string
	rows    [][]Cell
}

// Row adds a row of texts and Cells, one for each column.
func (t *Table) Row(cells ...any) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case Cell:
			row[i] = c
		default:
			row[i] = Cell{Text: fmt.Sprint(c)}
		}
		if row[i].Text == "" {
			row[i].Text = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Write prints the table.
func (t *Table) Write(w io.Writer, coloured bool) error {
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintln(&b, t.Title)
	}
	if len(t.rows) == 0 {
		fmt.Fprintln(&b, t.None)
		_, err := io.WriteString(w, b.String())
		return err
	}
	header := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = Cell{Text: c}
	}
	rows := append([][]Cell{header}, t.rows...)
	width := make([]int, len(t.Columns))
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.Text))
		}
	}
	for _, row := range rows {
		for i, c := range row {
			text := c.Text
			if code := codes[c.Colour]; coloured && code != "" {
				text = code + text + "\x1b[0m"
			}
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.Text)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
