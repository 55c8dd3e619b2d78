// Package kdump receives messages from kernels that have crashed and write a dump of their memory.
// The dump kernel sends them by UDP with fence_kdump_send of the fence-agents, every 10 s by
// default, while it writes the dump.
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
//   - The messages that Receive returns have arrived since the last call began, because each call
//     returns only when nothing is left to receive. A clock that is read before each call therefore
//     bounds the age of the messages, even if the process was stopped while a message waited
//     (TestMessagesAreNotOlderThanTheCallBefore).
//   - A packet that is not a message of fence_kdump_send is ignored
//     (TestWhatIsNotAMessageIsIgnored).
//
// # Not guaranteed
//
//   - A message may be forged, because it is unsigned and identified only by its sender's address.
//     Anyone who can send UDP packets from the address of a machine can claim that its kernel has
//     stopped. Prevent that with a firewall or in the network.
//   - A message may be lost, like any UDP packet, but the next one follows.
//
// The package needs no permissions in Kubernetes. In a container, use the port of the host:
// hostNetwork, or a hostPort without translation of source addresses. Otherwise all messages come
// from the same address and are useless.
package kdump
