// Package kdump hears of kernels that have crashed and write a dump of their memory: it receives what fence_kdump_send of the fence-agents sends from a dump
// kernel, over UDP, each 10 s by default, for as long as the dump is written.
//
//	port, err := kdump.Listen(":7410")
//	...
//	defer port.Close()
//	for ctx.Err() == nil {
//		from, err := port.Receive(ctx) // addresses
//	}
//
// Package fencing does this for nodes with kdump=yes: see its Config.Dumps.
//
// # Guaranteed
//
//   - What a call of Receive returns has come since the call before it began: each returns only after there was nothing left to be received. So whoever reads
//     a clock before each call knows that a message is not older than that, also where the process was stopped and the message has waited
//     (TestMessagesAreNotOlderThanTheCallBefore).
//   - What is not a message of fence_kdump_send is ignored (TestWhatIsNotAMessageIsIgnored).
//
// # Not guaranteed
//
//   - That a message is true. It has no signature and no name: the address that it came from is all there is. Whoever can send UDP from the address of a
//     machine, or in its name, can say that its kernel has stopped. Let a firewall, or the network, see to it that nobody else can.
//   - That a message comes. They are lost like all of UDP; there are more of them.
//
// It needs no rights in Kubernetes. In a container the port has to be that of the host (hostNetwork, or a hostPort without translation of source addresses), or
// all messages come from the same address, which says nothing.
package kdump
