package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func TestHistoryKeepsWhatChanges(t *testing.T) {
	h := newHistory()
	add := func(at float64, a, none int) {
		h.add(count{seconds(at), map[string]int{"a": a}, map[string]int{"": none}})
	}
	add(0, 0, 10)
	for _, at := range []float64{1, 2, 3} {
		add(at, 0, 10)
	}
	add(4, 10, 0)
	h.leave("a")
	add(5, 10, 0)
	h.note(mark{at: seconds(4.5), name: "a: kill -9"})
	counts, marks := h.all()
	assert.Equal(t, []count{
		{seconds(0), map[string]int{"a": 0}, map[string]int{"": 10}},
		{seconds(3), map[string]int{"a": 0}, map[string]int{"": 10}},
		{seconds(4), map[string]int{"a": 10}, map[string]int{"": 0}},
		{seconds(5), map[string]int{}, map[string]int{"": 0, "a": 10}},
	}, counts)
	assert.Len(t, marks, 1)
}

func TestCensusKnowsWhatWaits(t *testing.T) {
	c := newCensus("r")
	c.see(configMap(1, "a", false), at(0))
	c.see(configMap(2, "a", true), at(0))
	c.see(configMap(3, "", false), at(0))
	assert.Equal(t, count{seconds(7), map[string]int{"a": 1}, map[string]int{"a": 1, "": 1}}, c.count(seconds(7)))
}

// story is a run in which nothing special happens.
func story() (counts []count, marks []mark) {
	none := map[string]int{}
	counts = []count{
		{seconds(0.01), none, map[string]int{"": 1000}},
		{seconds(4), map[string]int{"a": 300, "b": 300, "c": 400}, none},
		{seconds(8), map[string]int{"a": 200, "b": 250, "c": 250, "d": 300}, none},
		{seconds(9), map[string]int{"b": 250, "c": 250, "d": 300}, map[string]int{"a": 200}},
		{seconds(24), map[string]int{"b": 300, "c": 350, "d": 350}, none},
		{seconds(29), map[string]int{"c": 450, "d": 550}, none},
	}
	marks = []mark{
		{seconds(0), "a, b and c start", 1000, seconds(4)},
		{seconds(6), "d joins", 300, seconds(1.55)},
		{seconds(8), "a: kill -9", 200, seconds(15)},
		{seconds(27), "b: kill -TERM", 300, seconds(0.9)},
	}
	return counts, marks
}

func TestPictureShowsShardsAndFaults(t *testing.T) {
	counts, marks := story()
	svg, err := picture(cast, counts, marks)
	require.NoError(t, err)
	assert.Less(t, len(svg), 60<<10)
	var texts []string
	shapes := map[string]int{}
	element := ""
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Name.Local
			for _, a := range token.Attr {
				for _, part := range strings.Split(a.Value, ";") {
					if a.Name.Local == "style" && strings.HasPrefix(part, "fill:#") {
						shapes[strings.TrimPrefix(part, "fill:")]++
					}
				}
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); element == "text" && text != "" {
				texts = append(texts, text)
			}
		}
	}
	for _, want := range []string{
		"1000 objects, and the shards that work on them", "objects", "time since the start (s)", "0", "25", "1000",
		"shard a", "shard b", "shard c", "shard d", "waiting for a shard",
		"a, b and c start", "d joins", "a: kill -9", "b: kill -TERM", "200 moved in 15.0 s", "300 moved in 0.9 s",
	} {
		assert.Contains(t, texts, want)
	}
	for _, colour := range []string{"#0072B2", "#E69F00", "#009E73", "#CC79A7"} {
		assert.Equal(t, 2, shapes[colour], "%s is of a layer and in the legend: %v", colour, shapes)
	}
	assert.Positive(t, shapes["#FFFFFF"], "a background for dark pages")
	assert.Contains(t, string(svg), "sans-serif", "letters where ours are not installed")
}

func TestPictureOfTheSameIsTheSame(t *testing.T) {
	counts, marks := story()
	first, err := picture(cast, counts, marks)
	require.NoError(t, err)
	second, err := picture(cast, counts, marks)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(second))
}

func TestOutlineIsOfAllLayersBelow(t *testing.T) {
	counts, _ := story()
	outlined := outline(counts, bands(cast)[:3]) // a, what waits for a, b
	assert.Len(t, outlined, len(counts)+2)
	assert.InDelta(t, 600, outlined[1].Y, 0)
	assert.InDelta(t, 450, outlined[3].Y, 0)
	assert.Zero(t, outlined[len(counts)].Y)
}

func TestCaptionsDoNotOverlap(t *testing.T) {
	assert.Equal(t, []int{0, 0, 0}, rows([]vg.Length{0, 50, 100}, []vg.Length{50, 50, 50}))
	assert.Equal(t, []int{0, 1, 0}, rows([]vg.Length{0, 50, 60}, []vg.Length{50, 50, 50}))
	assert.Equal(t, []int{2, 1, 0}, rows([]vg.Length{0, 10, 20}, []vg.Length{50, 50, 50}))
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var from, wide []vg.Length
		for range random.IntN(8) {
			from = append(from, vg.Length(random.IntN(500)))
			wide = append(wide, vg.Length(1+random.IntN(120)))
		}
		slices.Sort(from)
		placed := rows(from, wide)
		for i := range from {
			for j := i + 1; j < len(from); j++ {
				if placed[j] >= placed[i] {
					// the caption of j is beside that of i, or the line below it crosses its row
					assert.LessOrEqual(t, from[i]+wide[i], from[j], "%v %v: %v", from, wide, placed)
				}
			}
		}
	}
}
