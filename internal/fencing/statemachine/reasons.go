package statemachine

// Reason names a transition, as the reason of a [Write] and of an Event. The package documentation
// shows the transitions in the flow.
type Reason string

// The transitions, in the order of the flow.
const (
	Begun              Reason = "Begun"              // a node is failing
	NotReadyTimeout    Reason = "NotReadyTimeout"    // for long enough, and the policy allows
	Returned           Reason = "Returned"           // the node works again before it lost its power
	StorageCut         Reason = "StorageCut"         // pods are released whose storage the node cannot reach
	StorageFreed       Reason = "StorageFreed"       // the pods are released
	DumpSeen           Reason = "DumpSeen"           // the kernel has stopped, and writes a dump: pods are released
	DumpPodsReleased   Reason = "DumpPodsReleased"   // the pods are released
	MethodFailed       Reason = "MethodFailed"       // a method of the cluster failed, and is tried again
	IsolationFailed    Reason = "IsolationFailed"    // the step is out of tries
	NodeIsolated       Reason = "NodeIsolated"       // the step is done
	PowerWaitOver      Reason = "PowerWaitOver"      // the node did not return
	AlreadyReleased    Reason = "AlreadyReleased"    // after a restart of the flow: only power is left to restore
	OffIntent          Reason = "OffIntent"          // a command is about to be sent
	OffSeen            Reason = "OffSeen"            // the device reads off, twice
	OffSpent           Reason = "OffSpent"           // the device reads on, and nothing is under way
	OffUnread          Reason = "OffUnread"          // the device cannot be read
	OffUnclear         Reason = "OffUnclear"         // the device reads off, which proves nothing: it is ambiguous
	IntentCancelled    Reason = "IntentCancelled"    // the command that was about to be sent was not
	NextLevel          Reason = "NextLevel"          // another level of devices is used
	PowerFailed        Reason = "PowerFailed"        // the last level is out of tries
	AllOff             Reason = "AllOff"             // every device of the level was read off
	PassUnread         Reason = "PassUnread"         // a feed cannot be read, and is tried again
	Contradicted       Reason = "Contradicted"       // a feed is on that was off
	WrongPlugSuspected Reason = "WrongPlugSuspected" // all feeds are off, and the node still works
	Confirmed          Reason = "Confirmed"          // an admin confirms that the machine is without power
	Verified           Reason = "Verified"           // all feeds are off, and the node does not answer
	ReleaseBegun       Reason = "ReleaseBegun"       // from here on pods are deleted
	PodsDeleted        Reason = "PodsDeleted"        // all pods of the node are deleted
	WorkloadsFreed     Reason = "WorkloadsFreed"     // the release is done
	TaintRemoved       Reason = "TaintRemoved"       // the out-of-service taint is gone from the node
	OnIntent           Reason = "OnIntent"           // a command is about to be sent
	OnSeen             Reason = "OnSeen"             // the device reads on
	LeftOff            Reason = "LeftOff"            // the device stays as it is
	PowerRestored      Reason = "PowerRestored"      // every device is on again
	BootGraceOver      Reason = "BootGraceOver"      // the node did not come back
	NodeBack           Reason = "NodeBack"           // the node works
	LostAgain          Reason = "LostAgain"          // the node has failed again
	RecoveryFailed     Reason = "RecoveryFailed"     // the step is out of tries
	Recovered          Reason = "Recovered"          // the end
	NodeRemoved        Reason = "NodeRemoved"        // the end, as configured
	FlowRestarted      Reason = "FlowRestarted"      // after an error
	RestartsUsedUp     Reason = "RestartsUsedUp"     // after the last one
	Ended              Reason = "Ended"              // the fence is given up
	NodeGone           Reason = "NodeGone"           // the machine may belong to another node
	Worked             Reason = "Worked"             // the node works, although its fence was given up
	Denied             Reason = "Denied"             // the policy ends the fence
	Stopped            Reason = "Stopped"            // an admin ends the fence
	Paused             Reason = "Paused"             // an admin interrupts the fence
	Resumed            Reason = "Resumed"            // an admin lets it continue
	Held               Reason = "Held"               // nothing happens, and the record shows why
	TriggerJoined      Reason = "TriggerJoined"      // another condition also requires the fence
	IncidentReopened   Reason = "IncidentReopened"   // the next incident of the node

	CommissionBegun  Reason = "CommissionBegun"  // a commission: the devices of a working node are tried
	NodeWentDown     Reason = "NodeWentDown"     // the node went down, with all devices of the level off
	Commissioned     Reason = "Commissioned"     // the node is back, rebooted: these are its devices
	CommissionFailed Reason = "CommissionFailed" // the commission proved nothing
)
