package doomed

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Process reports whether a process is gone, or will do nothing any more: it has ended, or is about
// to, or has SIGKILL pending, and a busy machine has not come to it yet.
func Process(pid int) bool {
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
	return ending(pid) // second: the signal is not pending any more once it is acted on
}

// ending reports whether a process is on its way out of the kernel.
func ending(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	const flagsField, exiting, killed = 6, 1 << 2, 1 << 10 // 0 is the state; PF_EXITING, PF_SIGNALED
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flagsField {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[flagsField]), 10, 64)
	return err == nil && flags&(exiting|killed) != 0
}
