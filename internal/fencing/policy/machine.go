package policy

import (
	"slices"
	"strings"
)

// Machine is what a node reports about its machine. Empty values are unknown.
type Machine struct {
	// SystemUUID is that of the firmware, which machines with poor firmware share.
	SystemUUID string
	// ID is that of the operating system, which machines share that were copied from one image.
	ID string
	// Addresses are its IP addresses.
	Addresses []string
}

// worthless are system UUIDs of firmware whose vendor has not set one, in lower case.
var worthless = []string{
	"00000000-0000-0000-0000-000000000000",
	"ffffffff-ffff-ffff-ffff-ffffffffffff",
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
	"03000200-0400-0500-0006-000700080009",
	"00020003-0004-0005-0006-000700080009",
	"12345678-1234-5678-90ab-cddeefaabbcc",
	"01234567-8910-1112-1314-151617181920",
	"4c4c4544-0000-2010-8020-80c04f202020",
}

// uuid returns the system UUID, or "" if it does not tell machines apart.
func (m Machine) uuid() string {
	id := strings.ToLower(m.SystemUUID)
	if len(id) != len(worthless[0]) || slices.Contains(worthless, id) {
		return ""
	}
	return id
}

// marks returns what m has and no other machine should have, each once, with its name.
func (m Machine) marks() (marks []string) {
	switch id := m.uuid(); {
	case id != "":
		marks = append(marks, "system UUID "+id)
	case m.ID != "":
		marks = append(marks, "machine ID "+m.ID)
	}
	for _, a := range m.Addresses {
		if mark := "address " + a; a != "" && !slices.Contains(marks, mark) {
			marks = append(marks, mark)
		}
	}
	return marks
}

// askMachine holds a fence if the machine of the node seems to work under the name of another one.
// A value that several Ready nodes share does not identify a machine.
func askMachine(c *consideration) GateResult {
	switch {
	case c.node == nil:
		return noNode(ReasonSameMachine)
	case c.Target.Act == Isolate:
		return pass("nothing is switched")
	}
	others := map[string][]string{} // Ready nodes, by mark
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if c.is(n) || n.Gone || n.Ready != True {
			continue
		}
		for _, mark := range n.Machine.marks() {
			others[mark] = append(others[mark], n.Name)
		}
	}
	for _, mark := range c.node.Machine.marks() {
		if names := others[mark]; len(names) == 1 {
			return hold(ReasonSameMachine,
				"node %s works, and has the %s of node %s: it seems to be the same machine, under another name",
				names[0], mark, c.Target.Name)
		}
	}
	return pass("no node that works has the machine of node %s", c.Target.Name)
}
