// Package kdump receives messages from kernels that have crashed and write a dump of their memory.
// The program fence_kdump_send of the fence-agents sends them from the dump kernel by UDP, every
// 10 s by default, as long as the dump is written.
//
//	port, err := kdump.Listen(":7410")
//	...
//	defer port.Close()
//	for ctx.Err() == nil {
//		from, err := port.Receive(ctx) // addresses
//	}
//
// Package fencing does this for nodes with kdump=yes; see its Config.Dumps.
//
// # Guaranteed
//
//   - The messages that Receive returns have arrived since the last call began, as each call
//     returns only when nothing is left to receive. So a clock that is read before each call bounds
//     the age of the messages, even if the process was stopped while a message waited
//     (TestMessagesAreNotOlderThanTheCallBefore).
//   - A packet that is not a message of fence_kdump_send is ignored
//     (TestWhatIsNotAMessageIsIgnored).
//
// # Not guaranteed
//
//   - A message may be forged. It has no signature and no name, only the address of its sender.
//     Anyone who can send UDP packets from the address of a machine can claim that its kernel has
//     stopped. Prevent that with a firewall or in the network.
//   - A message may be lost, as all UDP packets. The next one follows.
//
// The package needs no permissions in Kubernetes. In a container, use the port of the host:
// hostNetwork, or a hostPort without translation of source addresses. Otherwise all messages come
// from the same address, and are of no use.
package kdump
