//go:build !linux

package main

import (
	"fmt"
	"os"
	"syscall"
)

func run(options) (code int) {
	fmt.Fprintln(os.Stderr, "bellwether run: only on Linux, whose kernel ends the program with its leader")
	return exitUnavailable
}

func signalOf(string) (syscall.Signal, error) { return syscall.SIGTERM, nil }
