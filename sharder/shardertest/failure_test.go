package shardertest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// runFailing is the environment variable by which this binary runs the failing tests only.
const runFailing = "SHARDERTEST_RUN_FAILING"

// failing are tests that fail, in the ways in which tests of a user fail, and one that does not.
func failing() []testing.InternalTest {
	ringOf := func(t *testing.T) *shardertest.Ring {
		t.Helper()
		return shardertest.New(t, shardertest.Config{Scheme: widgetScheme(t), Resources: ofRing})
	}
	inTest := func(t *testing.T) {
		ringOf(t).Run(func(context.Context) { require.Fail(t, "asserted in the test") })
	}
	inWork := func(t *testing.T) {
		ring := ringOf(t)
		ring.Run(func(context.Context) {
			entered := make(chan struct{})
			ring.Go(func(ctx context.Context) error {
				return shard.RunController(ctx, ring.Shard, ring.Informer(widgets), 1,
					func(context.Context, *Widget) error {
						defer close(entered)
						require.Fail(t, "asserted in the work")
						return nil
					})
			})
			ring.Assign(widget("mine"))
			<-entered
		})
	}
	return []testing.InternalTest{
		{Name: "TestInTest", F: inTest},
		{Name: "TestInTestInBubble", F: func(t *testing.T) { synctest.Test(t, inTest) }},
		{Name: "TestInWork", F: inWork},
		{Name: "TestInWorkInBubble", F: func(t *testing.T) { synctest.Test(t, inWork) }},
		{Name: "TestInPart", F: func(t *testing.T) {
			ring := ringOf(t)
			ring.Run(func(ctx context.Context) {
				ring.Go(func(context.Context) error {
					require.Fail(t, "asserted in a part")
					return nil
				})
				<-ctx.Done() // the term ends
			})
		}},
		{Name: "TestPartFails", F: func(t *testing.T) {
			ring := ringOf(t)
			ring.Run(func(context.Context) {
				ring.Go(func(context.Context) error { return errors.New("the port is in use") })
				require.Eventually(t, t.Failed, time.Minute, time.Millisecond) // before the term ends
			})
		}},
		{Name: "TestInWorkOfTheLease", F: func(t *testing.T) { // of a program that calls Lease.Run itself
			ring := ringOf(t)
			err := ring.Lease.Run(t.Context(), func(context.Context) error {
				require.Fail(t, "asserted under the lease")
				return nil
			})
			t.Logf("Run returned: %v", err)
		}},
		{Name: "TestGoOutsideOfRun", F: func(t *testing.T) { ringOf(t).Go(nil) }},
		{Name: "TestUnknownKind", F: func(t *testing.T) {
			shardertest.New(t, shardertest.Config{Resources: ofRing})
		}},
		{Name: "TestAssignOutsideOfRun", F: func(t *testing.T) { ringOf(t).Assign(widget("early")) }},
		{Name: "TestAssignWhatIsNotSelected", F: func(t *testing.T) {
			ring := shardertest.New(t, shardertest.Config{Scheme: scheme.Scheme, Resources: []api.Resource{{
				GVR:      corev1.SchemeGroupVersion.WithResource("configmaps"),
				Selector: labels.SelectorFromSet(labels.Set{"app": "mine"}),
			}}})
			ring.Run(func(context.Context) {
				ring.Assign(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
			})
		}},
		{Name: "TestGetOfNothing", F: func(t *testing.T) { ringOf(t).Get(widget("absent")) }},
		{Name: "TestAfterwards", F: func(*testing.T) {}},
	}
}

// An assertion that fails fails its test by name, with its message, and ends nothing else.
func TestAFailedAssertionIsReported(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, "-test.v", mutation.Timeout(t))
	command.Env = append(os.Environ(), runFailing+"=1")
	printed, err := command.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode(), "that of failed tests")
	for name, message := range map[string]string{
		"TestInTest":                  "asserted in the test",
		"TestInTestInBubble":          "asserted in the test",
		"TestInWork":                  "asserted in the work",
		"TestInWorkInBubble":          "asserted in the work",
		"TestInPart":                  "asserted in a part",
		"TestPartFails":               "what Go has started has returned an error: the port is in use",
		"TestInWorkOfTheLease":        "asserted under the lease",
		"TestGoOutsideOfRun":          "call Go in the function that Run calls",
		"TestUnknownKind":             "is each kind in Config.Scheme, or in Config.Kinds if it has no Go type?",
		"TestAssignWhatIsNotSelected": "the Selector of /v1, Resource=configmaps does not select it",
		"TestAssignOutsideOfRun":      "the shard has to hold its lease",
		"TestGetOfNothing":            `widgets.example.com "absent" not found`,
	} {
		assert.Regexp(t, `(?s)=== RUN   `+name+`\n(?:[^=]|=[^=])*`+regexp.QuoteMeta(message)+`.*--- FAIL: `+name+` `,
			string(printed))
	}
	assert.Contains(t, string(printed), "--- PASS: TestAfterwards ")
	assert.NotContains(t, string(printed), "panic")
	if t.Failed() {
		t.Logf("%s", printed)
	}
}
