// Package nodeconfig reads how nodes are fenced: from ConfigMaps it makes a [Plan] for a node, or
// errors that say what is wrong and where. It is a function of values: it calls nobody, and values
// of Secrets are no part of it.
//
//	resolution := config.Resolve(config.Namespace{ConfigMaps: ..., SecretKeys: ..., Agent: ...}, nodes)
//	plan, err := resolution.Plan("w1")
//	...
//	target, err := plan.PowerManagement[0].Off()[0].Device.Target("w1", valueOfSecret)
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - What is invalid is refused as a whole: no other configuration takes its place, and no part of
//     it is used (TestInvalidConfigurationIsNotReplacedByAMoreGeneralOne). All errors are returned
//     at once, with object, key and line (TestEveryRule).
//   - An agent that does not answer and a Secret that cannot be read are problems of the nodes that
//     need them ([NotKnown], TestWhatCannotBeFoundOutConcernsThoseWhoNeedIt).
//   - A level of power management that is not empty switches something off, and no plug twice, so
//     that two feeds of a machine are not taken for cut because one was cut twice; every off comes
//     before every on (TestEveryRule, TestPlansCanBeCarriedOut).
//   - No plan has a reboot (TestRebootIsOffForAllThenOn), and an agent's own default never says
//     which plug is meant (TestEveryRule).
//   - What a node claims by its provider ID is not taken from one that the configuration names, nor
//     from one that claimed it before (TestNodeThatClaimsAnothersPlugHarmsItselfOnly).
//   - No plug is that of two nodes, by whatever names and spellings of the parameters, and whether
//     or not the other node can be fenced (TestPlugOfTwoNodes, TestPlugOfANodeThatCannotBeFenced,
//     TestConfigurationOfSeveralNodesHasToTellThem).
//   - What a node says of itself, and what is in a Secret, is put in as it is: it becomes no other
//     parameter, and placeholders in it are not replaced (TestWhatNodesSayIsNoConfiguration,
//     TestValuesOfSecrets, FuzzResolve).
//   - Passwords are not in anything that is printed, encoded or hashed, nor in errors
//     (TestPasswordsAreNotPrinted, TestErrorsDoNotTellPasswords, TestHash).
//
// # Not guaranteed
//
//   - That the plug that is named is the one that the machine is connected to, that a level names
//     all feeds, and that different addresses, ports or agents are different devices, is for
//     whoever writes the configuration to know.
//   - Agents are programs, some of whose parameters name other programs and files: whoever may
//     write the ConfigMaps may switch off any machine, and do what the agents may do. So may
//     whoever can change labels and provider IDs of nodes, as far as the configuration is made of
//     them.
//
// # Which configuration a node has
//
// The first of these that exists is used, whole:
//
//   - the ConfigMap fence-config-node-<node>;
//   - fence-config-<node>, the former name; there must not be both. If that could also be the name
//     for a type or for another node, as for a node called node-1, it is only if its node_name is
//     the node's;
//   - fence-config-type-<value>, for the value of the node's label type in lower case and with "-"
//     for "_";
//   - the built-in one: mark the node unschedulable, restart its instance in the cloud, mark it
//     schedulable.
//
// All ConfigMaps and Secrets are in one namespace. A ConfigMap that is of no node is a warning: its
// name may be misspelt.
//
// # Grammar
//
//	text    = { line "\n" }        line = blank | comment | entry
//	comment = ws "#" any           entry = ws key ws "=" ws value ws        (the first "=" splits)
//	key     = letter { letter | digit | "_" | "-" | "." }                   compared in lower case and with "-" = "_"
//	value   = '"' any '"' | any                                             ws = blanks and tabs; one CR at the end is dropped
//
// A comment is a whole line: "#" in a value is a part of it. One pair of double quotes around a
// value is removed, nothing in it is escaped, single quotes are characters. A line does not go on
// in the next one: a value that ends in "\" has to be in quotes. A line has at most 4 KiB of UTF-8,
// without control characters, line separators and byte order marks. A key is given once. A value
// may be empty in a step; a parameter that is meant to be empty is "".
//
// # Keys of config.properties
//
//	node_name          name of the node; [NODE_NAME] or {{.NodeName}} for any           required
//	isolation          methods                                                          required, may be empty
//	power_management   methods; power_managment too                                     required, may be empty
//	recovery           methods                                                          required, may be empty
//	power_management.2 to .9                                                            methods for when the level before has failed; no gaps
//	power_on           always, never or manual                                          default always
//	not_ready_for      for how long a node has to have failed                           default 30s
//	power_wait         between isolation and power management                           default 5m
//	boot_grace         from the on until the node is ready, at least 1s                 default 10m
//	retries            how often a method is tried, 1 to 100                            default 3
//	restarts           how often all begins anew after a failure, 0 to 100              default 1
//	kdump              yes or no: release the pods of a kernel that writes a dump, and wait for its end    default no
//	kdump_timeout      for that                                                         default 5m
//
// Durations are those of Go, such as 90s or 5m, of at most 24h.
//
// A step is names of methods with blanks between them, in the order in which they are done, each
// once. These are built in: mark-unschedulable, mark-schedulable, cordon, uncordon,
// restart-instance, clean-pods, out-of-service, detach-volumes and delete-node. All others are data
// keys fence-method-<name> of the ConfigMap; all of them are checked, also those in no step. Names
// are compared as keys are.
//
// Isolation has one level: all of its methods have to succeed, but for those with must_success=no,
// and power management is what comes after it. It switches nothing on, and what it switches off
// recovery switches on. Recovery switches nothing off. A level of power management has to cut all
// feeds of the machine by itself, and what it switches off it switches on, but for power_on=never.
// That also leaves out what is written to be switched on. delete-node is the last method of power
// management, and needs power_on=never.
//
// restart-instance is the off and the on of plug {{.InstanceID}} with the agent and the parameters
// of the ConfigMap fence-method-template-cloud.
//
// # Keys of methods and templates
//
// A method has
//
//	template           a ConfigMap fence-method-template-<device>, whose data key is template.properties
//	agent              an agent without template: one of both is required
//	action             off, on, or reboot or cycle, which are an off and an on for which all others are done before    required
//	plug               one plug
//
// and a template
//
//	agent_name         the agent                                                        required
//	name               for people
//	must_success       yes, or no: a failure fails no isolation; must_sucess too        default yes; not no in power management
//
// Both have
//
//	settle             from a command until it has landed, if that ever happens         default 30s, or what the agent needs if that is more
//	command_timeout    how long the agent may take for a command or a reading          whole seconds, default the controller's
//	<parameter>        of the agent, by its new or old name
//	<parameter>.secret name/key of a Secret                                             not for what says which plug is meant
//
// The parameters action, help, version, missing_as_off, which makes a plug that does not exist read
// off, and method=cycle are refused.
//
// A method's parameter takes the place of the template's, and that of the agent's default, but for
// address and plug, which have to be given. Values of parameters may have {{.NodeName}},
// {{.ProviderID}} and {{.InstanceID}}, the last part of the provider ID's path, in them. In a
// configuration of several nodes address or plug must. A password that is not in a Secret is a
// warning, with [Namespace].StrictSecrets an error; what is one is judged by the parameter's name.
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
