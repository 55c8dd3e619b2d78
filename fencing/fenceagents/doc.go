// Package fenceagents runs the programs of ClusterLabs' fence-agents, which know how to read and to switch some eighty
// kinds of devices: BMCs by IPMI and Redfish, power distribution units by SNMP, Fibre Channel switches, hypervisors and
// clouds. [Agents] is what a fencing controller needs of agents: pass it as fencing.Config.Agents.
//
// The programs are not part of this project. On Debian they are the package fence-agents, with ipmitool, snmp, telnet or
// openssh-client for the devices that are spoken to by these; the image of a fencing controller has to contain them.
// Linux only.
//
// # Guaranteed
//
// In brackets: the test that fails without it. Those that begin with "lab:" run the real programs, in internal/e2e/lab.
//
//   - A program gets all that it is told through its standard input, the action always, since without one it reboots; no
//     arguments, no shell, and of the controller's environment nothing but what [Config] names
//     (TestParametersGoThroughStandardInput, TestSecretsAreNowhereElse, lab:TestAgentWithoutAnActionReboots).
//   - Nothing is run if a parameter is not one of those that the program's own metadata lists, is missing or given by two
//     names: programs go on without what they do not understand (TestBadParametersAreRefusedBeforeAnythingIsRun,
//     lab:TestUnknownParametersAreOnlyWarnedAbout).
//   - Nobody can set parameters that name programs to execute, since who may edit a ConfigMap is not meant to run programs
//     as the controller; that write what is sent, passwords too, to a log or a file; that make a program print a text in
//     place of what it was asked for; delay, by which a command would be sent when the node may be back; nor missing_as_off,
//     which makes a plug that does not exist read as off. A plug is one, not a list, of which some programs switch and read
//     but the first (the same test;
//     lab:TestOnlyTheFirstPlugOfAListIsSwitchedAndRead, lab:TestVersionInsteadOfAStatus).
//   - A parameter that is false is not sent unless its default is true. Many programs only look whether it is there, and
//     would do without verifying certificates for ssl_insecure=0 (TestWhatIsFalseAnywayIsNotSent,
//     lab:TestNoVerificationOfCertificatesForAnAgentThatWasToldToVerifyThem).
//   - A reading is what the program has printed and said by its exit code, both. An exit code alone is not enough: 2 means
//     off, but interpreters end with it, too, when they cannot open their script
//     (TestReadsOnlyWhatOutputAndExitCodeSayAlike).
//   - When a call returns, every process of the program's group is dead, and every other one that has inherited its
//     environment, in whatever group or session: ipmitool or telnet would go on otherwise (TestEndOfTheContextKillsAll,
//     TestTimeoutKillsAll, TestNothingOutlivesAnAgentThatHasEnded, lab:TestDeadDevice). [ErrAlive] says that something may
//     not be (TestWhatCannotBeFoundIsReported).
//   - No command is handed over after the context has ended, also if this process was stopped meanwhile
//     (TestNothingIsHandedOverTooLate), nor much later than it was asked for because the metadata took long
//     (TestCommandIsNotSentLate).
//   - If the controller is killed, the kernel kills the program (TestAgentDiesWithTheController).
//   - No value of a parameter is in an argument, in the environment or in a log. What a program writes to its standard error
//     becomes part of an error, shortened, and without anything in it that is or might be a secret
//     (TestSecretsAreNowhereElse, TestSecretsAreScrubbedWhereverOutputIsCut, lab:TestSecretsAreNotInProcesses).
//
// # Not guaranteed
//
//   - What a program says of a command that it has sent is an error or none, and means nothing
//     (lab:TestCycleSucceedsOnABMCThatIgnoresIt, lab:TestCommandLandsAlthoughTheAgentWasKilled).
//   - Readings are as good as the program. One that asks a PDU of APC by SNMP version 2c for an outlet that it does not have
//     reads off (lab:TestPlugThatIsNotThereIsOffBySNMP2c): an off counts only where the same plug was read on before.
//   - If this process is stopped in the microseconds between the last look at the context and the hand-over, the command is
//     sent when it goes on. A leader with a kernel deadline does not go on then.
//   - If the controller is killed, what the program has started is not: one ipmitool or snmpset may still carry out the one
//     command that it was started for. That is then on its way like any other, which is what a fence's settle time is for.
//     In a container whose first process is the controller, nothing outlives it.
//   - A process that has left the group and cleared its environment, as sudo does, is not found; one that waits for a disk
//     cannot be killed. Then the call fails with [ErrAlive], in the first case only if it still holds the program's output.
//   - fence_ipmilan gives ipmitool the password as an argument, and agents that use SNMP do so with the community. Both are
//     blanked by the program that gets them, but for a moment other processes of the same machine can read them. Programs
//     also write to the machine's syslog, if there is one.
//   - Whoever may write the configuration chooses what is switched, what is sent to which address, and for some agents which
//     files they read or write as the controller.
package fenceagents
