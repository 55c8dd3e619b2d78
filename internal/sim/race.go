//go:build race

package sim

// slowness is how many times as long a schedule takes.
const slowness = 10
