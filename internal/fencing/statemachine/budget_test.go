//go:build !race

package statemachine

// bounded is how much may go wrong where the exploration is not to take minutes.
var bounded = []budget{{1, 1, 1, 1}, {0, 1, 1, 2}}

// walks is how many ways are walked through each scenario.
const walks = 60
