package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// glance is the interval between two looks at the cluster.
const glance = 50 * time.Millisecond

// sight is the state of a node, its fence and a Pod on the API server.
type sight struct {
	checked bool // the node's devices were read
	ready   bool // the node is
	marked  bool // the node has the fence's taint
	phase   v1alpha1.Phase
	pod     types.UID // of the present Pod, empty without one
	podNode string    // where it runs; empty if it does not
}

// news is a change to report.
type news struct{ who, what string }

// phases describes each phase of a fence.
var phases = map[v1alpha1.Phase]string{
	v1alpha1.PhaseDetected:   fmt.Sprintf("will it be back within %v?", notReadyFor),
	v1alpha1.PhaseIsolating:  "the node is marked, so that nothing new comes",
	v1alpha1.PhaseIsolated:   fmt.Sprintf("it has %v more to come back", powerWait),
	v1alpha1.PhasePowering:   "its BMC gets the command to switch it off",
	v1alpha1.PhaseVerifying:  "is it really off? The BMC is read again",
	v1alpha1.PhaseReleasing:  "proved to be off, so its Pods may go",
	v1alpha1.PhaseRestoring:  fmt.Sprintf("power on again, %v after the off", settle),
	v1alpha1.PhaseBooting:    "until the node reports",
	v1alpha1.PhaseRecovering: "the mark is taken away",
	v1alpha1.PhaseFinal:      "the node works again",
}

// since returns the changes.
func (s sight) since(before sight) []news {
	var all []news
	tell := func(so bool, who, what string) {
		if so {
			all = append(all, news{who, what})
		}
	}
	tell(s.checked && !before.checked, "fencer", "leads, and has read the BMC of "+lostNode)
	tell(s.ready && !before.ready, lostNode, "Ready")
	tell(!s.ready && before.ready, lostNode, "not Ready")
	if s.phase != before.phase && s.phase != "" {
		what, known := phases[s.phase]
		if known {
			what = ": " + what
		}
		tell(true, "fence", string(s.phase)+what)
	}
	tell(s.marked && !before.marked, lostNode, "tainted: NoSchedule")
	tell(!s.marked && before.marked, lostNode, "not tainted any more")
	tell(s.pod != before.pod && before.pod != "", "db-0", "the old Pod is gone")
	tell(s.podNode != before.podNode && s.podNode != "", "db-0", "runs on node "+s.podNode)
	return all
}
