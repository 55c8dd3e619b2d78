package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// doomed reports whether a process is gone, or will do nothing any more: it has ended, or has SIGKILL pending, and a busy machine has not come
// to it yet.
func doomed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	const sigkill = 1 << 8
	for line := range bytes.Lines(status) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "State":
			if value[0] == 'Z' || value[0] == 'X' {
				return true
			}
		case "SigPnd", "ShdPnd":
			if signals, err := strconv.ParseUint(string(value), 16, 64); err == nil && signals&sigkill != 0 {
				return true
			}
		}
	}
	return false
}
