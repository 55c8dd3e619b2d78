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
		c := newCluster(t)
		c.duration = time.Minute // a replica ends if it is refused for so long
		user := c.namespace + "-a"
		rules, _ := c.rules()
		lacking := map[string]string{"leases": "create", "configmaps": "patch"}
		for i, r := range rules {
			rules[i].Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == lacking[r.Resources[0]] })
		}
		require.NoError(t, c.cp.Grant(t.Context(), user, c.namespace, rules...))
		c.create(many)
		p := c.startAs(c.cp.User(user), "a")
		const missing = "rights are missing: grant all of them"
		c.requireLog(p, missing)
		assert.Contains(t, c.log(p), fmt.Sprintf(`"grant": %q}`, "create on resource leases of API group "+
			`"coordination.k8s.io" in namespace `+c.namespace+`; patch on resource configmaps of API group "" in `+
			"namespace "+c.namespace))

		require.NoError(t, c.cp.Grant(t.Context(), user, c.namespace,
			rbacv1.PolicyRule{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"},
			},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}))
		c.requireSettled("a")
		assert.Equal(t, 1, strings.Count(c.log(p), missing))
	})
}
