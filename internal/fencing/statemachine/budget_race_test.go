//go:build race

package statemachine

// bounded is the number of faults for explorations that must not take minutes. It is lower with the
// race detector: that makes them ten times as slow and finds nothing in a pure function.
var bounded = []budget{{1, 1, 1, 0}, {0, 1, 1, 1}, {0, 0, 0, 2}}

// walks is how many ways are walked through each scenario.
const walks = 10
