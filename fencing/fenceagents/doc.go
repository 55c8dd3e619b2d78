// Package fenceagents runs the programs of ClusterLabs' fence-agents. They read and switch some
// eighty kinds of devices: BMCs by IPMI and Redfish, power distribution units by SNMP, Fibre
// Channel switches, hypervisors and clouds. Use [Agents] as fencing.Config.Agents.
//
// The programs are not part of this project, so install them in the image of the fencing
// controller. On Debian they are the package fence-agents, with ipmitool, snmp, telnet or
// openssh-client as the devices require. They run on Linux only.
//
// # Guaranteed
//
// The names in parentheses are those of the tests that fail otherwise. Those with the prefix "lab:"
// run the real programs and are in internal/e2e/lab.
//
//   - A program gets all its input from standard input, without arguments, a shell or any
//     environment except what [Config] sets. The action is always set, because the programs reboot
//     without one (TestParametersGoThroughStandardInput, TestSecretsAreNowhereElse,
//     lab:TestAgentWithoutAnActionReboots).
//   - A program is not run if a parameter is missing, is set by two names, or is not in the
//     program's metadata, because the programs ignore unknown parameters
//     (TestBadParametersAreRefusedBeforeAnythingIsRun,
//     lab:TestUnknownParametersAreOnlyWarnedAbout).
//   - The following parameters are refused (the same test;
//     lab:TestOnlyTheFirstPlugOfAListIsSwitchedAndRead, lab:TestVersionInsteadOfAStatus).
//     Parameters that name programs to execute, because a user who may edit a ConfigMap must not
//     run programs as the controller; that write what is sent, passwords included, to a log or a
//     file; or that make a program print a text in place of a status. The parameter delay, which
//     sends a command when the node may be back, and missing_as_off, by which a plug that does not
//     exist reads off. A list of plugs, because some programs switch and read only the first.
//   - A parameter that is false is not sent unless its default is true. Many programs only check
//     whether it is set, and would not verify certificates with ssl_insecure=0
//     (TestWhatIsFalseAnywayIsNotSent,
//     lab:TestAgentThatVerifiesCertificatesCannotBeSetNotTo).
//   - A reading needs the same state in the program's output and exit code. The exit code 2 for off
//     is not enough, because interpreters also end with it if they cannot open their script
//     (TestReadsOnlyWhatOutputAndExitCodeSayAlike).
//   - [agent.Metadata].OffIsProof is set only for programs whose code was read, and which print OFF
//     for nothing that can continue. The table is in docs/fencing.md (TestTableOfWhatOffMeans,
//     lab:TestWhatOffMeansIsKnownOfEachInstalledAgent). A command that was not sent, because the
//     plug already read so, returns [agent.ErrAlready] (lab:TestSuspendedMachineReadsOff).
//   - When a call returns, all processes of the program are dead: those of its process group, and
//     those with its environment in any group or session, such as ipmitool or telnet
//     (TestEndOfTheContextKillsAll, TestTimeoutKillsAll, TestNothingOutlivesAnAgentThatHasEnded,
//     lab:TestDeadDevice). Otherwise the call returns [agent.ErrAlive] (TestWhatCannotBeFoundIsReported).
//   - No command is sent after the context has ended, even if this process was stopped meanwhile
//     (TestNothingIsHandedOverTooLate). No command is sent if reading the metadata has taken long
//     (TestCommandIsNotSentLate).
//   - A program may be started before its reading, because interpreters take long to start. It asks the
//     device for nothing before it has its input, which is when the reading begins, and is killed if
//     there is no reading (TestStartedProgramWaitsForItsInput, TestPreparedReading).
//   - If the controller is killed, the kernel kills the program (TestAgentDiesWithTheController).
//   - Values of parameters are not in arguments, in the environment or in logs. Errors contain a
//     program's shortened standard error. If the program has a secret, only words of a fixed
//     vocabulary are left of it, so that no encoding of the secret remains
//     (TestSecretsAreNowhereElse, TestSecretsAreScrubbedWhereverOutputIsCut,
//     TestSecretsOfAnyTypeAreHidden, lab:TestSecretsInTheEncodingsOfPython,
//     lab:TestSecretsAreNotInProcesses).
//
// # Not guaranteed
//
//   - The result of a command proves nothing, whether it is an error or not
//     (lab:TestCycleSucceedsOnABMCThatIgnoresIt, lab:TestCommandLandsAlthoughTheAgentWasKilled).
//   - A reading is as good as the program. The agent for APC's PDUs reads an outlet that does not
//     exist as off with SNMP version 2c (lab:TestPlugThatIsNotThereIsOffBySNMP2c). Off therefore
//     counts only where the same plug was read on before.
//   - If this process is stopped in the microseconds between the last check of the context and the
//     write to the program, the command is sent when the process continues. A leader with a kernel
//     deadline does not continue.
//   - If the controller is killed, children of the program survive, so that one ipmitool or snmpset
//     may still execute its command. The settle time of a fence covers that. In a container with
//     the controller as its first process, nothing survives.
//   - A process that leaves the group and clears its environment, as sudo does, is not found, and a
//     process that waits for a disk cannot be killed. The call then fails with [agent.ErrAlive], in
//     the first case only if the process still holds the program's output.
//   - fence_ipmilan passes the password to ipmitool as an argument, and agents for SNMP pass the
//     community. Both programs overwrite it, but other processes of the machine can read it for a
//     moment. Programs also write to the syslog of the machine, if there is one.
//   - A user who may write the configuration chooses what is switched and which data is sent to
//     which address. With some agents the user also chooses files that they read or write as the
//     controller.
package fenceagents
