package main

import (
	"math"
	"strconv"
)

// scale is the axis of values, from 0.
type scale struct{ step, top float64 }

// newScale has up to five round steps up to a value. Numbers of things are whole.
func newScale(highest float64, unit string) scale {
	if highest <= 0 {
		return scale{1, 1}
	}
	step := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, part := range []float64{0.2, 0.25, 0.5, 1, 2, 2.5} {
		if highest/(step*part) <= 5 {
			step *= part
			break
		}
	}
	if unit == count {
		step = max(1, math.Ceil(step))
	}
	return scale{step, step * math.Ceil(highest/step-1e-9)}
}

func (s scale) ticks() (all []float64) {
	for i := 0.0; i*s.step <= s.top*(1+1e-9); i++ {
		all = append(all, i*s.step)
	}
	return all
}

// named is a value in its unit, with three digits.
func named(v float64, unit string) string {
	if unit == yesOrNo {
		return map[bool]string{true: "Yes", false: "No"}[v != 0]
	}
	suffix := map[string]string{seconds: " s", each: "/s"}[unit]
	if unit == seconds && v != 0 && math.Abs(v) < 0.1 {
		v, suffix = 1000*v, " ms"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + suffix
}
