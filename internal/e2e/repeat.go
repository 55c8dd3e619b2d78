package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// SoakEnv names the environment variable that makes [Repeat] repeat: a duration such as "10m".
const SoakEnv = "BELLWETHER_SOAK"

// Repeat runs a test once. When soaking, it runs it repeatedly as numbered subtests until the
// duration is over, and reports their number.
func Repeat(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	value := os.Getenv(SoakEnv)
	if value == "" {
		test(t)
		return
	}
	duration, err := time.ParseDuration(value)
	if err != nil {
		t.Fatalf("%s: want a duration such as 10m (got %q)", SoakEnv, value)
	}
	runs, failed := 0, 0
	for start := time.Now(); time.Since(start) < duration; {
		runs++
		if !t.Run(strconv.Itoa(runs), test) {
			failed++
		}
	}
	fmt.Printf("soak: %s: %d runs, %d failed\n", t.Name(), runs, failed) // a log would be shown only on failure
}
