package docscheck_test

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// verb is a verb in the table.
var verb = regexp.MustCompile(`\b(get|list|watch|create|update|patch|delete)\b`)

// The table of rights grants the same as the manifests. The end-to-end tests run the examples with
// these manifests.
func TestRightsAreThoseOfTheManifests(t *testing.T) {
	granted := rights(t)
	withPod := maps.Clone(granted["leaderelection"])
	maps.Copy(withPod, granted["… with `PodUID"])
	granted["the example of leaderelection"] = withPod
	for of, manifests := range map[string][]string{
		"the example of leaderelection": {"leaderelection/rbac.yaml"},
		"leaderforlife":                 {"leaderforlife/rbac.yaml", "leaderforlife/rbac-optional.yaml"},
		"bellwether run":                {"run/rbac.yaml"},
		"fencing/fencejobs":             {"fencer/jobs.yaml"},
		"sharder":                       {"sharding/rbac.yaml"},
		"endpoints":                     {"endpoints/rbac.yaml"},
	} {
		assert.Equal(t, grants(t, manifests...), granted[of], of)
	}
	// The operator distributes Widgets instead, and its work is to write their status and Deployments.
	operator := grants(t, "controllerruntime/operator/rbac.yaml")
	assert.Equal(t, []string{"update"}, operator["widgets/status"])
	assert.Equal(t, sorted(append(operator["widgets"], "create", "update")), operator["deployments"])
	delete(operator, "deployments")
	operator["configmaps"] = sorted(append(operator["configmaps"], operator["widgets"]...))
	delete(operator, "widgets")
	delete(operator, "widgets/status")
	assert.Equal(t, granted["sharder"], operator, "operator")
	// The rights for its methods have to exist before a node is lost. The rights for deletions
	// beyond a fence need not.
	fencer := map[string][]string{}
	for _, of := range []string{
		"fencing", "leaderelection", "… with `Config.Events", "… with `Config.Storage",
		"… with the methods `clean-pods` or `detach-volumes",
	} {
		require.NotEmpty(t, granted[of], of)
		for resource, verbs := range granted[of] {
			fencer[resource] = sorted(append(fencer[resource], verbs...))
		}
	}
	assert.Equal(t, fencer, grants(t, "fencer/rbac.yaml"), "fencer")
}

// right is a line of the table in the documentation of the package fencing.
var right = regexp.MustCompile(`(?m)^//\t([a-z/, ]+?)(?: \(([a-z.0-9]+)\))?  +((?:[a-z]+, )*[a-z]+)(?:  +(.*))?$`)

// The package's documentation says the same as the table.
func TestRightsOfFencingAreThoseOfItsDocumentation(t *testing.T) {
	source, err := fs.ReadFile(root, "fencing/doc.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(source), "// # RBAC")
	require.True(t, found)
	said := map[string][]string{}
	for _, line := range right.FindAllStringSubmatch(table, -1) {
		for _, resource := range strings.Split(line[1], ", ") {
			said[resource] = sorted(append(said[resource], strings.Split(line[3], ", ")...))
		}
	}
	written := map[string][]string{}
	for of, granted := range rights(t) {
		switch of {
		case "for", "leaderelection", "bellwether run", "leaderforlife", "sharder", "endpoints", "fencing/fencejobs",
			"… with `LeaseStore", "… with `PodUID", "… with `PublishEndpoints", "… with `WithLease",
			"… with `WithNodeCheck":
			continue
		}
		for resource, verbs := range granted {
			written[resource] = sorted(append(written[resource], verbs...))
		}
	}
	assert.Equal(t, written, said)
}

// rights are the verbs in the table, by package and resource.
func rights(t *testing.T) map[string]map[string][]string {
	t.Helper()
	rights := read(t, "docs/operating.md").section(t, "## Rights")
	whose, resources, verbs := cells(rights, 0), cells(rights, 2), cells(rights, 3)
	granted := map[string]map[string][]string{} // by package and resource
	of := ""
	for i := range whose {
		if whose[i] != "" {
			of = strings.Trim(whose[i], "`")
		}
		if granted[of] == nil {
			granted[of] = map[string][]string{}
		}
		resource := strings.Trim(codeSpan.FindString(resources[i]), "`")
		if strings.HasPrefix(resources[i], "each resource") {
			resource = "configmaps" // are what the example distributes
		}
		granted[of][resource] = sorted(append(granted[of][resource], verb.FindAllString(verbs[i], -1)...))
	}
	return granted
}

// grants are the verbs that the Roles of manifests grant, by resource.
func grants(t *testing.T, manifests ...string) map[string][]string {
	t.Helper()
	verbs := map[string][]string{}
	for _, manifest := range manifests {
		file, err := root.Open("examples/" + manifest)
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			var role rbacv1.Role // has no rules where it is none
			err := documents.Decode(&role)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, manifest)
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					verbs[resource] = sorted(append(verbs[resource], rule.Verbs...))
				}
			}
		}
	}
	return verbs
}

// sorted returns each verb once, in order.
func sorted(verbs []string) []string {
	verbs = slices.Clone(verbs)
	slices.Sort(verbs)
	return slices.Compact(verbs)
}
