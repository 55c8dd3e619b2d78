package view

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bellwether-k8s/bellwether/sharder"
)

// Explanation states who may work on an object, why, since when, and what the object waits for.
type Explanation struct {
	Object string `json:"object"`
	// Root is the object that it follows, if it is a child.
	Root      string `json:"root,omitempty"`
	Ring      string `json:"ring"`
	Namespace string `json:"ringNamespace"`
	// Label is the shard in the object's label, Owner the one in the record of the root.
	Label      string `json:"label,omitempty"`
	Owner      string `json:"owner,omitempty"`
	OwnerState string `json:"ownerState,omitempty"`
	Epoch      int64  `json:"epoch,omitempty"`
	// Free means that the owner has released it.
	Free bool `json:"free,omitempty"`
	// Place is the owner on the ring.
	Place    string `json:"place,omitempty"`
	Draining bool   `json:"draining,omitempty"`
	// Since is when the writer of the record last changed the root; the owner has had it at least since then.
	Since time.Time `json:"since,omitzero"`
	// Step is what a sharder would do now, and Why the reason.
	Step string `json:"step"`
	Why  string `json:"why"`
	// Waits is what the object waits for.
	Waits []string `json:"waits"`
}

// ExplanationOf combines what the sharder's own code reports of an object with the states of the
// shards. root is the object itself, unless it is a child.
func ExplanationOf(x sharder.Explanation, root Object, r Ring, now time.Time) Explanation {
	e := Explanation{
		Object: named(x.Object.GVR.GroupResource().String(), x.Object.Namespace, x.Object.Name),
		Ring:   r.Name, Namespace: r.Namespace,
		Label: x.Label, Owner: x.Owner, Free: x.Free, Place: x.Target, Draining: x.Draining, Since: root.Written,
		Step: x.Verb, Why: x.Why, Waits: []string{},
	}
	if x.Root != x.Object {
		e.Root = named(x.Root.GVR.GroupResource().String(), x.Root.Namespace, x.Root.Name)
	}
	var owner *Shard
	if root.Owner != nil {
		e.Epoch = root.Owner.Epoch.Number
		owner = r.Shard(root.Owner.Shard)
		e.OwnerState = "Gone"
		if owner != nil {
			e.OwnerState = owner.State
		}
	}
	wait := func(format string, args ...any) { e.Waits = append(e.Waits, fmt.Sprintf(format, args...)) }
	switch {
	case owner == nil || x.Free:
	case owner.State == "Expired":
		wait("shard %s: its Lease was not renewed for %s. It may come back until twice its duration of %ds is over",
			owner.Name, since(owner.Renewed, now), owner.Duration)
	case owner.State == "Uncertain":
		wait("proof that shard %s is dead: its Lease was not renewed for %s, so a sharder takes it over when it has "+
			"watched it for twice %ds itself", owner.Name, since(owner.Renewed, now), owner.Duration)
	case owner.State == "Away":
		wait("shard %s, which has released its Lease and is expected back", owner.Name)
	case owner.State == "Malformed":
		wait("a repair of the Lease of shard %s: %s", owner.Name, owner.Problem)
	}
	if x.Draining && !x.Free && owner != nil && owner.State == "Ready" {
		text := fmt.Sprintf("shard %s, which is asked to end its work on it", owner.Name)
		if !root.DrainSince.IsZero() {
			text += fmt.Sprintf(" since %s", since(root.DrainSince, now))
		}
		wait("%s", text)
	}
	for _, name := range x.Left {
		wait("shard %s, which has to confirm that it does not work on it", name)
	}
	if len(r.Members()) == 0 {
		wait("a shard: the ring has none")
	}
	sharder := r.Summary().Sharder
	switch x.Verb {
	case "keep", "await", "hold", "reread":
	case "assign":
		if sharder != "" {
			wait("the sharder, %s, to assign it", sharder)
		}
	default:
		if sharder != "" {
			wait("the sharder, %s (%s)", sharder, x.Verb)
		}
	}
	if sharder == "" && x.Verb != "keep" && x.Verb != "await" {
		wait("a sharder: none is elected")
	}
	return e
}

func named(resource, namespace, name string) string {
	if namespace == "" {
		return resource + "/" + name
	}
	return resource + "/" + name + " in namespace " + namespace
}

func since(then, now time.Time) string { return duration.HumanDuration(age(then, now)) }
