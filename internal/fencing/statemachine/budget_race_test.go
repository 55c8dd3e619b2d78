//go:build race

package statemachine

// bounded is how much may go wrong where the exploration is not to take minutes: less with the race
// detector, which makes it ten times as slow and has nothing to find in a function.
var bounded = []budget{{1, 1, 1, 0}, {0, 1, 1, 1}, {0, 0, 0, 2}}

// walks is how many ways are walked through each scenario.
const walks = 10
