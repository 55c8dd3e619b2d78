package shardertest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(runFailing) != "" {
		all := func(string, string) (bool, error) { return true, nil }
		testing.Main(all, failing(), nil, nil) // exits
	}
	goleak.VerifyTestMain(m)
}
