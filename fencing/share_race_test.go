//go:build race

package fencing_test

// share is how many variants of a test there are for one that is tried: a world is ten times as
// slow with the race detector. make test, without it, tries all.
const share = 3
