package fenceagents

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// markerKey is the name of a variable that all processes of a call have in their environment. Its
// value is unique to the call.
const markerKey = "BELLWETHER_FENCE_CALL"

// rescan is the pause before the next look whether killed processes are gone.
const rescan = 5 * time.Millisecond

// family has all processes of a call: those in the group that its program leads, and those that
// have inherited the program's environment, in any group.
type family struct {
	leader int
	marker []byte
}

// killGroup kills the group. The leader must not have been reaped, because another group could have
// its ID.
func (f family) killGroup() { _ = syscall.Kill(-f.leader, syscall.SIGKILL) }

// end kills all processes repeatedly until none is found, because a process may start another one
// before it dies. It returns those that are still there after some patience. The leader must have
// ended, but not been reaped.
func (f family) end(patience time.Duration) (alive []int) {
	seen := map[int]status{}
	born, _ := look(f.leader)
	//nolint:forbidigo // killed processes end soon, whatever the context
	for deadline := time.Now().Add(patience); ; time.Sleep(rescan) {
		f.killGroup()
		var changing bool
		alive, changing = f.members(seen, born.start)
		if len(alive) == 0 && !changing || time.Now().After(deadline) {
			return alive
		}
		for _, pid := range alive {
			f.kill(pid, seen[pid])
		}
	}
}

// kill kills a process that was seen.
func (f family) kill(pid int, seen status) {
	process, err := os.FindProcess(pid) // refers to this very process, even if its ID is reused
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if now, ok := look(pid); ok && now.start == seen.start {
		_ = process.Kill()
	}
}

// members lists those that have not ended, and adds them to seen. It reaps ended ones that became
// children of this process because their parent has ended; as the first process of a container, it
// would otherwise collect them. changing reports whether a process that was started since then is
// changing, and may be a member.
func (f family) members(seen map[int]status, since uint64) (members []int, changing bool) {
	directory, err := os.Open("/proc")
	if err != nil {
		return nil, false // the group was killed, which is nearly everything
	}
	defer func() { _ = directory.Close() }()
	names, _ := directory.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == f.leader {
			continue
		}
		now, ok := look(pid)
		before, known := seen[pid]
		known = known && before.start == now.start // an ending process has no environment any more
		switch {
		case !ok:
		case now.ended && now.parent == os.Getpid() && (known || now.group == f.leader):
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		case now.ended:
		default:
			member, whole := true, true
			if !known {
				member, whole = f.has(pid, now)
			}
			if member {
				members = append(members, pid)
				seen[pid] = now
			}
			changing = changing || !whole && now.start >= since
		}
	}
	return members, changing
}

// has reports whether a process is a member of the family, and whether everything was read that
// shows it: for a moment, a process that executes a program has no environment, or one that reads
// as cut off.
func (f family) has(pid int, s status) (member, whole bool) {
	if s.group == f.leader {
		return true, true
	}
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false, true
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.Equal(variable, f.marker) {
			return true, true
		}
	}
	now, ok := look(pid)
	return false, !ok || now.bare || now.memory && len(environment) == now.environment
}

// status is the state of a process in the kernel.
type status struct {
	parent, group int
	start         uint64 // distinguishes it from an earlier process with its ID
	ended         bool
	bare          bool // without memory for good: a thread of the kernel, or its first thread has ended
	memory        bool // it has what a program has: the kernel shows where the code is once the rest is there
	environment   int  // its length in memory
}

func look(pid int) (s status, ok bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, false
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:]) // the name in parentheses may be anything
	const (
		parentField, groupField, flagsField, threadsField, startField = 1, 2, 6, 17, 19 // 0 is the state
		codeField, environmentField, endField                         = 24, 47, 48
		kernelThread                                                  = 0x200000 // PF_KTHREAD
	)
	if len(fields) <= endField {
		return status{}, false
	}
	var errs []error
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(string(fields[field]), 10, 64)
		errs = append(errs, err)
		return n
	}
	s = status{
		parent: int(number(parentField)), group: int(number(groupField)), start: number(startField),
		memory: number(codeField) != 0, environment: int(number(endField) - number(environmentField)),
	}
	// the state of the first thread, which may end before others
	first := bytes.ContainsAny(fields[0], "ZX")
	s.ended = first && number(threadsField) <= 1
	s.bare = first || number(flagsField)&kernelThread != 0
	return s, errors.Join(errs...) == nil
}
