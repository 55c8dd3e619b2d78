//go:build !linux

package main

import (
	"fmt"
	"os"
)

func run(options) (code int) {
	fmt.Fprintln(os.Stderr, "bellwether run: only on Linux, whose kernel ends the program with its leader")
	return exitUnavailable
}
