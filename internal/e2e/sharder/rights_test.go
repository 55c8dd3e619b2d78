package sharder_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestMissingRightsAreSaidTogether starts a replica that may neither take its shard lease nor, later,
// assign objects. It says both before the sharder begins, and goes on when both are granted.
func TestMissingRightsAreSaidTogether(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.duration = time.Minute // a replica ends if it is refused for so long
		user := f.namespace + "-a"
		rules, _ := f.rules()
		lacking := map[string]string{"leases": "create", "configmaps": "patch"}
		for i, r := range rules {
			rules[i].Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == lacking[r.Resources[0]] })
		}
		require.NoError(t, f.cp.Grant(t.Context(), user, f.namespace, rules...))
		f.create(many)
		p := f.startAs(f.cp.User(user), "a")
		const missing = "rights are missing: grant all of them"
		f.requireLog(p, missing)
		assert.Contains(t, f.log(p), fmt.Sprintf(`"grant": %q}`, "create on resource leases of API group "+
			`"coordination.k8s.io" in namespace `+f.namespace+`; patch on resource configmaps of API group "" in `+
			"namespace "+f.namespace))

		require.NoError(t, f.cp.Grant(t.Context(), user, f.namespace,
			rbacv1.PolicyRule{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"},
			},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}))
		f.requireSettled("a")
		assert.Equal(t, 1, strings.Count(f.log(p), missing))
	})
}
