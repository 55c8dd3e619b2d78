//go:build !race

package nodeconfig_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by the test that is about it.
var mutations = []mutation.Mutation{
	{
		Name: "values go on in the next line", File: "text.go", Old: "unicode.IsControl(r) && r != '\\t'",
		New:    "unicode.IsControl(r) && r != '\\t' && r != '\\n'",
		Caught: "TestFormatWritesNothingThatWouldBeReadAsSomethingElse",
	},
	{
		Name: "quotes of a value are taken for the writer's", File: "text.go",
		Old: `value[0] == '"' && value[len(value)-1] == '"' {`, New: "false {",
		Caught: "TestWhatIsFormattedIsReadTheSame",
	},
	{
		Name: "what nodes say is not looked at", File: "node.go", Old: "case flaw != \"\":", New: "case false:",
		Caught: "TestWhatNodesSayIsNoConfiguration",
	},
	{
		Name: "placeholders in what nodes say are replaced", File: "node.go", Old: "return fact\n",
		New:    "return strings.ReplaceAll(fact, nodeNamePlaceholder, n.Name)\n",
		Caught: "TestWhatNodesSayIsNoConfiguration",
	},
	{
		Name: "passwords are encoded", File: "../nodeplan/value.go", Old: "case v.hidden:\n\t\treturn json",
		New: "case false:\n\t\treturn json", Caught: "TestPasswordsAreNotPrinted",
	},
	{
		Name: "passwords are printed", File: "../nodeplan/value.go", Old: "case v.hidden:\n\t\treturn \"hidden\"",
		New: "case false:\n\t\treturn \"hidden\"", Caught: "TestPasswordsAreNotPrinted",
	},
	{
		Name: "lines of a Secret are parameters", File: "target.go", Old: "case flaw != \"\":", New: "case false:",
		Caught: "TestValuesOfSecrets",
	},
	{
		Name: "nodes share a plug", File: "resolve.go", Old: "\tcheckPlugs(subjects)\n", New: "",
		Caught: "TestPlugOfTwoNodes",
	},
	{
		Name: "agents do not know of each other's plugs", File: "device.go", Old: "device.Identity = at.String()",
		New: "_ = at", Caught: "TestPlugOfTwoNodes",
	},
	{
		Name: "what is wrong is somebody else's", File: "resolve.go", Old: "return !given || e.value",
		New:    "return given && e.value",
		Caught: "TestMostSpecificObjectIsUsed",
	},
	{
		Name: "errors of a text do not matter", File: "resolve.go",
		Old: "s.problems = append(s.problems, t.problems...)", New: "_ = t.problems", Caught: "TestEveryRule",
	},
	{
		Name: "all nodes of a type have one plug", File: "device.go", Old: "s.general && !general.contains(",
		New: "false && !general.contains(", Caught: "TestConfigurationOfSeveralNodesMustDistinguishThem",
	},
	{
		Name: "agents know which plug", File: "parameter.go", Old: "case p.Default != \"\" && !isPlug:",
		New: "case p.Default != \"\":", Caught: "TestEveryRule",
	},
	{
		Name: "agents know which address", File: "device.go", Old: "if !at.known() {", New: "if at.known() && false {",
		Caught: "TestEveryRule",
	},
	{
		Name: "a missing plug is off", File: "agent.go",
		Old: "\t\"missing_as_off\": \"a plug that does not exist would read off\",\n", New: "",
		Caught: "TestEveryRule",
	},
	{
		Name: "the plug of an agent without plugs tells machines", File: "device.go", Old: "case hasPlug && !isGiven:",
		New: "case hasPlug && !isGiven && false:", Caught: "TestEveryRule",
	},
	{
		Name: "addresses may be hidden", File: "parameter.go", Old: "agent.identifies(parameter) || ", New: "",
		Caught: "TestEveryRule",
	},
	{
		Name: "a feed is switched off twice", File: "steps.go", Old: "\ts.checkTwins(st, methods)\n", New: "",
		Caught: "TestEveryRule",
	},
	{
		Name: "nothing is all that is switched off", File: "steps.go", Old: "case len(off) == 0:",
		New:    "case len(off) < 0:",
		Caught: "TestEveryRule",
	},
	{
		Name: "on comes before off", File: "steps.go", Old: "case m.Action == agent.ActionOff && firstOn != \"\":",
		New:    "case false:",
		Caught: "TestEveryRule",
	},
	{
		Name: "machines that are to stay off are switched on", File: "steps.go",
		Old:    "(m.Action != agent.ActionOn || st.step != powerManagement || s.plan.PowerOn != nodeplan.Never)",
		New:    "true",
		Caught: "TestMachineThatStaysOffHasNoOn",
	},
	{
		Name: "power management may fail and go on", File: "steps.go",
		Old: "st.step == powerManagement && !d.mustSucceed",
		New: "false", Caught: "TestEveryRule",
	},
	{
		Name: "commands land at once", File: "parameter.go", Old: "device.Settle < least",
		New:    "device.Settle < 0 && least > 0",
		Caught: "TestEveryRule",
	},
	{
		Name: "agents settle as fast as others", File: "method.go", Old: "max(defaultSettle, d.agent.MinSettle)",
		New: "defaultSettle", Caught: "TestFallbackLevels",
	},
	{
		Name: "who came first does not matter", File: "resolve.go", Old: "claims[s.node.Name] = s.node.Since",
		New: "claims[s.node.Name] = 0", Caught: "TestNodeThatClaimsAnothersPlugHarmsItselfOnly",
	},
	{
		Name: "what a node says of itself is as good", File: "resolve.go",
		Old: "claims[s.node.Name] = configured", New: "claims[s.node.Name] = s.node.Since",
		Caught: "TestNodeThatClaimsAnothersPlugHarmsItselfOnly",
	},
	{
		Name: "a spelling disables all of its type", File: "resolve.go",
		Old:    "s.warning(place{object: s.object}, \"object must",
		New:    "s.problem(place{object: s.object}, \"object must",
		Caught: "TestNodeThatClaimsAnothersPlugHarmsItselfOnly",
	},
	{
		Name: "what cannot be found out is wrong", File: "problem.go", Old: "return p.cause }", New: "return nil }",
		Caught: "TestUnreadableAgentOrSecretFailsOnlyTheNodesThatNeedIt",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations, "-rapid.nofailfile")
}
