// Package nodeconfig parses how nodes are fenced: from ConfigMaps it makes a [nodeplan.Plan] for a node, or
// returns all errors with their places. It depends only on its input, sends no requests, and does
// not read the values of Secrets.
//
//	resolution := nodeconfig.Resolve(nodeconfig.Namespace{ConfigMaps: ..., SecretKeys: ..., Agent: ...}, nodes)
//	plan, err := resolution.Plan("w1")
//	...
//	target, err := nodeconfig.Target(plan.PowerManagement[0].Off()[0].Device, "w1", valueOfSecret)
//
// # Guaranteed
//
// The names in parentheses are those of the tests that fail otherwise.
//
//   - An invalid configuration is rejected as a whole, so that no other configuration replaces it
//     and no part of it is used (TestInvalidConfigurationIsNotReplacedByAMoreGeneralOne). All
//     errors are returned at once, with object, key and line (TestEveryRule).
//   - An agent that does not answer and a Secret that cannot be read are errors of the nodes that
//     need them ([ErrUnread], TestUnreadableAgentOrSecretFailsOnlyTheNodesThatNeedIt).
//   - A level of power management that is not empty switches something off, and no plug twice, so
//     that two feeds do not count as cut when one was cut twice. Every off comes before every on
//     (TestEveryRule, TestPlansCanBeCarriedOut).
//   - No plan has a reboot (TestRebootIsOffForAllThenOn), and the default of an agent never selects
//     the plug (TestEveryRule).
//   - A node cannot take a plug by its provider ID from a node that the configuration names, nor
//     from one that claimed it before (TestNodeThatClaimsAnothersPlugHarmsItselfOnly).
//   - No plug belongs to two nodes, whatever the names and spellings of the parameters, and even if
//     the other node cannot be fenced (TestPlugOfTwoNodes, TestPlugOfANodeThatCannotBeFenced,
//     TestConfigurationOfSeveralNodesMustDistinguishThem).
//   - Values from nodes and Secrets are inserted literally, so that they do not become other
//     parameters, and placeholders in them are not replaced (TestWhatNodesSayIsNoConfiguration,
//     TestValuesOfSecrets, FuzzResolve).
//   - Passwords are not printed, encoded or hashed, and not in errors (TestPasswordsAreNotPrinted,
//     TestErrorsDoNotTellPasswords, TestHash).
//
// # Not guaranteed
//
//   - The package cannot know whether the named plug feeds the machine, whether a level names all
//     feeds, or whether different addresses, ports or agents are different devices.
//   - Agents are programs, and some of their parameters name other programs and files. A user who
//     may write the ConfigMaps can therefore switch off any machine, and do what the agents may do.
//     So can a user who may change labels and provider IDs of nodes, as far as the configuration
//     depends on them.
//
// # Which configuration a node has
//
// The first of these that exists is used, as a whole:
//
//   - The ConfigMap fence-config-node-<node>.
//   - The ConfigMap fence-config-<node>, the former name. Both together are an error. If this name
//     may also be that of a type or of another node, as for a node called node-1, it is used only
//     if its node_name is that of the node.
//   - The ConfigMap fence-config-type-<value>, for the value of the node's label type in lower case
//     and with "-" for "_".
//   - The built-in one: mark the node unschedulable, restart its instance in the cloud, mark it
//     schedulable.
//
// All ConfigMaps and Secrets are in one namespace. A ConfigMap of no node is a warning, because its
// name may be misspelt.
//
// # Grammar
//
//	text    = { line "\n" }        line = blank | comment | entry
//	comment = ws "#" any           entry = ws key ws "=" ws value ws  (the first "=" splits)
//	key     = letter { letter | digit | "_" | "-" | "." }             compared in lower case and with "-" = "_"
//	value   = '"' any '"' | any
//	ws      = blanks and tabs; one CR at the end is dropped
//
// A comment is a whole line, and "#" in a value is part of the value. One pair of double quotes
// around a value is removed. Nothing in it is escaped, and single quotes are ordinary characters.
// Lines cannot be continued, so put a value that ends in "\" in quotes. A line has at most 4 KiB of
// UTF-8, without control characters, line separators and byte order marks. A key is given once. A
// value may be empty in a step; write "" for an empty parameter.
//
// # Keys of config.properties
//
//	node_name          name of the node; [NODE_NAME] or {{.NodeName}} for any           required
//	isolation          methods                                                          required, may be empty
//	power_management   methods; or power_managment                                      required, may be empty
//	recovery           methods                                                          required, may be empty
//	power_management.2 to .9                    methods for when the level before has failed; no gaps
//	power_on           always, never or manual                                          default always
//	not_ready_for      how long a node must have failed                 default Namespace.NotReadyFor, 30s
//	power_wait         between isolation and power management                           default 5m
//	boot_grace         from the on until the node is ready, at least 1s                 default 10m
//	retries            how often a method is tried, 1 to 100                            default 3
//	restarts           how often the fence restarts after a failure, 0 to 100            default 1
//	kdump              yes or no: release the pods of a kernel that writes a dump, and wait for its end    default no
//	kdump_timeout      the longest wait for that end                                    default 5m
//
// Durations are those of Go, such as 90s or 5m, of at most 24h.
//
// A step is a list of names of methods, separated by blanks, in the order of execution, each once.
// Built-in methods are mark-unschedulable, mark-schedulable, cordon, uncordon, restart-instance,
// clean-pods, out-of-service, detach-volumes and delete-node. All others are data keys
// fence-method-<name> of the ConfigMap. All of them are checked, including those in no step. Names
// are compared as keys are.
//
// detach-volumes evicts the pods of the node, and then deletes its VolumeAttachments. It fails
// while evicted pods have not ended, pods of DaemonSets have claims, or the kubelet reports volumes
// in use. On a node that is not Ready it leaves detaching to the release, because the machine may
// still write. A recovery skips clean-pods and detach-volumes, which are for nodes that fail.
//
// Isolation has one level. All of its methods must succeed, except those with must_success=no;
// power management follows. Isolation switches nothing on, and recovery switches on what it has
// switched off. Recovery switches nothing off. A level of power management must cut all feeds of
// the machine, and switches on what it has switched off, unless power_on is never, which also omits
// methods with the action on. delete-node is the last method of power management, and needs
// power_on=never.
//
// restart-instance is the off and the on of plug {{.InstanceID}}, with the agent and the parameters
// of the ConfigMap fence-method-template-cloud.
//
// # Keys of methods and templates
//
// A method has
//
//	template  a ConfigMap fence-method-template-<device>, whose data key is template.properties
//	agent     an agent without template: one of both is required
//	action    required: off, on, or reboot or cycle, which are an off, and an on after all others
//	plug      one plug
//
// and a template
//
//	agent_name    the agent                                                  required
//	name          for display
//	must_success  yes, or no: a failure fails no isolation; or must_sucess  default yes; not no in power management
//
// Both have
//
//	settle             from a command until it has landed, if ever   default 30s, or the agent's if longer
//	command_timeout    for a command or a reading of the agent       whole seconds; default the controller's
//	off_is_proof       yes, or no: off may be a suspended machine    default the agent's
//	device             a name: calls to one device come one by one   default agent, address and port
//	<parameter>        of the agent, by its new or old name
//	<parameter>.secret name/key of a Secret                        not for parameters that select the plug
//
// These parameters are refused: action, help, version, method=cycle, and missing_as_off, by which a
// plug that does not exist reads off.
//
// A parameter of a method overrides that of the template, which overrides the default of the agent.
// Address and plug have no default. Values may contain {{.NodeName}}, {{.ProviderID}} and
// {{.InstanceID}}, the last part of the provider ID's path. In a configuration of several nodes the
// address or the plug must contain one. A password outside of a Secret is a warning, and an error
// with [Namespace].StrictSecrets. The name of a parameter decides whether it is a password.
//
// # A complete example
//
//	apiVersion: v1
//	kind: ConfigMap
//	metadata:
//	  name: fence-config-node-w1
//	data:
//	  config.properties: |-
//	    node_name=w1
//	    isolation=mark-unschedulable
//	    power_management=bmc-off bmc-on
//	    power_management.2=pdu-a-off pdu-b-off pdu-a-on pdu-b-on
//	    recovery=mark-schedulable
//	  fence-method-bmc-off: |-
//	    template=fence-method-template-ipmi
//	    ip=bmc-{{.NodeName}}.example
//	    action=off
//	  fence-method-bmc-on: |-
//	    template=fence-method-template-ipmi
//	    ip=bmc-{{.NodeName}}.example
//	    action=on
//	  fence-method-pdu-a-off: |-
//	    template=fence-method-template-apc
//	    plug=5
//	    action=off
//	  fence-method-pdu-a-on: |-
//	    template=fence-method-template-apc
//	    plug=5
//	    action=on
//	  fence-method-pdu-b-off: |-
//	    template=fence-method-template-eaton
//	    plug=6
//	    action=off
//	  fence-method-pdu-b-on: |-
//	    template=fence-method-template-eaton
//	    plug=6
//	    action=on
//	---
//	apiVersion: v1
//	kind: ConfigMap
//	metadata:
//	  name: fence-method-template-ipmi
//	data:
//	  template.properties: |-
//	    agent_name=fence_ipmilan
//	    username=fencer
//	    password.secret=bmc/password
//	    lanplus=1
//	    cipher=3
//	    power_wait=0
//	---
//	apiVersion: v1
//	kind: ConfigMap
//	metadata:
//	  name: fence-method-template-apc
//	data:
//	  template.properties: |-
//	    agent_name=fence_apc_snmp
//	    ip=pdu-a.example
//	    community.secret=pdu/community
//	---
//	apiVersion: v1
//	kind: ConfigMap
//	metadata:
//	  name: fence-method-template-eaton
//	data:
//	  template.properties: |-
//	    agent_name=fence_eaton_snmp
//	    ip=pdu-b.example
//	    snmp_version=1
//	    community.secret=pdu/community
package nodeconfig
