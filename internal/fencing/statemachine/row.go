package statemachine

// Row names a transition: what a [Write] is for. It is a word in CamelCase, fit for the reason of an Event. The package's documentation has all of
// them in their places.
type Row string

// The transitions, in the order of the flow.
const (
	Begun              Row = "Begun"              // a node is failing
	NotReadyTimeout    Row = "NotReadyTimeout"    // for long enough, and the policy allows
	Returned           Row = "Returned"           // the node works again before it lost its power
	StorageCut         Row = "StorageCut"         // pods are released whose storage the node cannot reach
	StorageFreed       Row = "StorageFreed"       // they are
	DumpSeen           Row = "DumpSeen"           // the kernel has stopped, and writes a dump: pods are released
	DumpPodsReleased   Row = "DumpPodsReleased"   // they are
	MethodFailed       Row = "MethodFailed"       // a method of the cluster, and is tried again
	IsolationFailed    Row = "IsolationFailed"    // the step is out of tries
	NodeIsolated       Row = "NodeIsolated"       // the step is done
	PowerWaitOver      Row = "PowerWaitOver"      // the node did not return
	AlreadyReleased    Row = "AlreadyReleased"    // after a restart of the flow: all that is left is power
	OffIntent          Row = "OffIntent"          // a command is about to be sent
	OffSeen            Row = "OffSeen"            // the device reads off, twice
	OffSpent           Row = "OffSpent"           // the device reads on, and nothing is under way any more
	OffUnread          Row = "OffUnread"          // the device cannot be read
	IntentCancelled    Row = "IntentCancelled"    // the command that was about to be sent was not
	NextLevel          Row = "NextLevel"          // another level of devices is used
	PowerFailed        Row = "PowerFailed"        // the last level is out of tries
	AllOff             Row = "AllOff"             // every device of the level was read off
	PassUnread         Row = "PassUnread"         // a feed cannot be read, and is tried again
	Contradicted       Row = "Contradicted"       // a feed is on that was off
	WrongPlugSuspected Row = "WrongPlugSuspected" // all feeds are off, and the node still works
	Confirmed          Row = "Confirmed"          // an admin says that the machine is without power
	Verified           Row = "Verified"           // all feeds are off, and the node does not answer
	ReleaseBegun       Row = "ReleaseBegun"       // from here on pods are deleted
	PodsDeleted        Row = "PodsDeleted"        // all pods of the node are
	WorkloadsFreed     Row = "WorkloadsFreed"     // the release is done
	TaintRemoved       Row = "TaintRemoved"       // the out-of-service taint is not on the node any more
	OnIntent           Row = "OnIntent"           // a command is about to be sent
	OnSeen             Row = "OnSeen"             // the device reads on
	LeftOff            Row = "LeftOff"            // the device stays as it is
	PowerRestored      Row = "PowerRestored"      // every device is on again
	BootGraceOver      Row = "BootGraceOver"      // the node did not come
	NodeBack           Row = "NodeBack"           // the node works
	LostAgain          Row = "LostAgain"          // and does not any more
	RecoveryFailed     Row = "RecoveryFailed"     // the step is out of tries
	Recovered          Row = "Recovered"          // the end
	NodeRemoved        Row = "NodeRemoved"        // the end, as configured
	FlowRestarted      Row = "FlowRestarted"      // after an error
	RestartsUsedUp     Row = "RestartsUsedUp"     // after the last one
	Ended              Row = "Ended"              // the fence is given up
	NodeGone           Row = "NodeGone"           // the machine may be somebody else's
	Worked             Row = "Worked"             // the node does, although its fence was given up
	Denied             Row = "Denied"             // the policy ends the fence
	Stopped            Row = "Stopped"            // an admin does
	Paused             Row = "Paused"             // an admin interrupts it
	Resumed            Row = "Resumed"            // and lets it go on
	Held               Row = "Held"               // nothing happens, and the record says why
	TriggerJoined      Row = "TriggerJoined"      // another condition asks for the same
	IncidentReopened   Row = "IncidentReopened"   // the next incident of the node

	CommissionBegun  Row = "CommissionBegun"  // it is not a fence: the devices of a node that works are tried
	NodeWentDown     Row = "NodeWentDown"     // the node did, with all devices of the level off
	Commissioned     Row = "Commissioned"     // it is back, started anew: these are its devices
	CommissionFailed Row = "CommissionFailed" // and that was not so
)
