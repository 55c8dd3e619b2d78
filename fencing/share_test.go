//go:build !race

package fencing_test

// share is how many variants of a test there are for one that is tried.
const share = 1
