package chaos_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// judge reads the replicas' journals, all versions of the objects, and the audit log, as they grow,
// and passes them to the referees.
type judge struct {
	mu        sync.Mutex
	exclusion *exclusion
	ownership *ownership
	handovers *handovers
	journals  []*journal
	moves     int
	written   int // versions, by whomever
	breaches  []breach
	read      error // what kept it from reading
	breach    chan struct{}
}

// breach is a promise that was not kept.
type breach struct {
	object string // name
	text   string
}

// journal is the journal of one process.
type journal struct {
	process, shard string
	tail           *e2e.Tail
	ended          bool
	at             time.Duration // when it ended
}

const (
	// remembered is how long a deleted object, and ended work, may still matter: longer than the
	// delay of any source.
	remembered = 2 * time.Minute
	// maxBreaches is how many are reported: one mistake may cause thousands.
	maxBreaches = 20
	// workUser is the suffix of the names of users that work for shards, and workGroup is their
	// group.
	workUser  = "-work"
	workGroup = "chaos:work"
)

// auditPolicy has only the writes of work logged, with the versions that they have led to.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  userGroups: ["` + workGroup + `"]
  verbs: [create, update, patch, delete]
- level: None
`

func newJudge() *judge {
	j := &judge{handovers: newHandovers(), breach: make(chan struct{})}
	j.exclusion, j.ownership = newExclusion(j.breached), newOwnership(j.breached)
	return j
}

// breached notes a breach, with all that is known of its object. The caller holds the mutex.
func (j *judge) breached(family types.UID, what string) {
	if len(j.breaches) == 0 {
		close(j.breach)
	}
	if len(j.breaches) >= maxBreaches {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", what)
	name := ""
	if root := j.ownership.objects[family]; root != nil {
		name = root.name
	}
	for _, o := range j.ownership.objects {
		if family != "" && o.family == family {
			fmt.Fprintf(&text, "  %s, %s:\n    %s\n", o.name, o.uid, strings.Join(o.versions, "\n    "))
		}
	}
	pieces := j.exclusion.families[family]
	fmt.Fprintf(&text, "  work:\n")
	for _, p := range pieces[max(0, len(pieces)-40):] {
		fmt.Fprintf(&text, "    %v\n", p)
	}
	j.breaches = append(j.breaches, breach{name, text.String()})
}

// complain notes a breach that is not about an object.
func (j *judge) complain(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.breached("", what)
}

// latest is the version up to which all was seen.
func (j *judge) latest() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ownership.latest
}

// follow adds the journal of a process that is about to start.
func (j *judge) follow(process, shard, path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.journals = append(j.journals,
		&journal{process: process, shard: shard, tail: &e2e.Tail{Path: path, Discard: true}})
}

// ended notes the end of a process.
func (j *judge) ended(process string, at time.Duration, why cause) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.journals {
		if n.process != process {
			continue
		}
		n.ended, n.at = true, at
		for uid, o := range j.ownership.objects {
			if o.deleted.IsZero() && o.owner.is(n.shard) {
				j.handovers.leaves(uid, departure{why, n.shard, at})
			}
		}
	}
}

// see processes a version of an object.
func (j *judge) see(v e2e.Version) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := process.SinceBoot()
	j.written++
	last := owner{}
	if o := j.ownership.objects[v.Object.GetUID()]; o != nil {
		last = o.owner
	}
	o, before := j.ownership.see(v, now)
	switch {
	case o.family != o.uid:
	case v.Deleted:
		j.handovers.stays(o.uid)
	case o.now.drained && !before.drained && o.owner.State == "owned":
		j.handovers.leaves(o.uid, departure{drain, o.owner.Shard, now})
	case !o.now.drained && before.drained && o.now.owner.is(last.Shard): // withdrawn
		j.handovers.stays(o.uid)
	}
	if o.owner.State == "owned" && last.Shard != "" && o.owner.Shard != last.Shard {
		j.moves++
	}
	return nil
}

// digest reads on in all that grows.
func (j *judge) digest(cp *e2e.ControlPlane) {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := cp.DigestAudit(func(e e2e.AuditEvent) {
		revision, err := strconv.ParseInt(e.ResourceVersion, 10, 64)
		if e.Code >= 300 || err != nil {
			return
		}
		j.ownership.audit(revision, write{user: e.User, shard: strings.TrimSuffix(e.User, workUser)})
	})
	if err != nil {
		j.read = err
	}
	j.journals = slices.DeleteFunc(j.journals, func(n *journal) bool {
		err := n.tail.Read(func(line []byte) error { return j.note(n, line) })
		if err != nil {
			j.read = err
		}
		if !n.ended {
			return false
		}
		j.exclusion.died(n.process, n.at)
		_ = n.tail.Close()
		_ = os.Remove(n.tail.Path)
		return true
	})
}

// note processes a line of a journal. The caller holds the mutex.
func (j *judge) note(n *journal, line []byte) error {
	words := bytes.Fields(line)
	if len(words) < 3 {
		return fmt.Errorf("journal of %s: %q", n.process, line)
	}
	number, err := strconv.ParseInt(string(words[1]), 10, 64)
	if err != nil {
		return err
	}
	nanoseconds, err := strconv.ParseInt(string(words[2]), 10, 64)
	if err != nil {
		return err
	}
	id, at := pieceID{n.process, number}, time.Duration(nanoseconds)
	if string(words[0]) == "end" {
		j.exclusion.end(id, at)
		return nil
	}
	if len(words) < 4 {
		return fmt.Errorf("journal of %s: %q", n.process, line)
	}
	family := types.UID(words[3])
	j.exclusion.begin(id, family, at)
	j.handovers.begun(family, n.shard, at)
	return nil
}

// forget drops state that no longer matters.
func (j *judge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exclusion.forget(process.SinceBoot() - remembered)
	j.ownership.forget(time.Now().Add(-remembered))
}

// conclude ends all open work, and returns all breaches.
func (j *judge) conclude() ([]breach, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.journals {
		j.exclusion.died(n.process, process.SinceBoot())
	}
	return j.breaches, j.read
}

// report returns what was judged.
func (j *judge) report() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var text strings.Builder
	w := j.ownership
	fmt.Fprintf(&text, "versions of objects: %d; moves: %d\n", j.written, j.moves)
	for _, c := range causes {
		fmt.Fprintf(&text, "hand-over after %s\n", j.handovers.summary(c))
	}
	fmt.Fprintf(&text, "judged: %d pieces of work; %d writes by their signature (%d of them on what a user had "+
		"edited), %d by the audit log\n",
		j.exclusion.begun, w.signed, w.edited, w.audited)
	fmt.Fprintf(&text, "violations: %d\n", len(j.breaches))
	return text.String()
}
