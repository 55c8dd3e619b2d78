package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are the directories of the control groups of one name, one in each hierarchy of version 1.
type cgroups []string

// cgroupsBelow returns the control groups of a name below those of this process. They may not exist
// yet.
func cgroupsBelow(name string) (cgroups, error) {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var groups cgroups
	for line := range strings.Lines(string(content)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] == "" { // version 2
			continue
		}
		hierarchy := strings.TrimPrefix(parts[1], "name=")
		groups = append(groups, filepath.Join(cgroupRoot, hierarchy, parts[2], name))
	}
	return groups, nil
}

func (g cgroups) create() error {
	for _, group := range g {
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} { // empty ones admit no process
			inherited, err := os.ReadFile(filepath.Join(filepath.Dir(group), setting))
			if errors.Is(err, fs.ErrNotExist) {
				continue // of another controller
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(group, setting), inherited, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// join moves this process into the control groups.
func (g cgroups) join() error {
	for _, group := range g {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the control groups and those below them. Their processes have ended.
func (g cgroups) remove() error {
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		err = nil
		for _, group := range g {
			var below []string
			_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, _ error) error {
				if entry != nil && entry.IsDir() {
					below = append(below, path)
				}
				return nil
			})
			slices.Reverse(below)
			for _, path := range below {
				if removed := os.Remove(path); !errors.Is(removed, fs.ErrNotExist) {
					err = errors.Join(err, removed)
				}
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// freeze stops or continues all processes in the control groups, and returns when it is so.
func (g cgroups) freeze(frozen bool) error {
	state := "THAWED"
	if frozen {
		state = "FROZEN"
	}
	for _, group := range g {
		file := filepath.Join(group, "freezer.state")
		if _, err := os.Stat(file); err != nil {
			continue // of another controller
		}
		for deadline := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
			if err := os.WriteFile(file, []byte(state), 0o644); err != nil {
				return err
			}
			now, err := os.ReadFile(file)
			if err != nil || strings.TrimSpace(string(now)) == state {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s is %s, not %s", file, strings.TrimSpace(string(now)), state)
			}
		}
	}
	return errors.New("this machine has no freezer")
}
