package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// Exit codes, besides those of the program.
const (
	exitUsage       = 64 // EX_USAGE of sysexits.h
	exitUnavailable = 69 // EX_UNAVAILABLE
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

const usage = "bellwether run {--lease NAME | --ring NAME --resource RESOURCE} [flags] -- PROGRAM [arguments]"

func main() {
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	switch command {
	case "run":
	case "install":
		os.Exit(runInstall(os.Args[2:]))
	case "help", "--help", "-help", "-h":
		fmt.Printf("usage: %s\n\nRuns a program while it holds a Lease. bellwether run --help lists the flags.\n",
			usage)
		return
	default:
		fmt.Fprintf(os.Stderr, "usage: %s\nbellwether run --help lists the flags.\n", usage)
		os.Exit(exitUsage)
	}
	o, err := parse(os.Args[2:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "bellwether run:", err)
		os.Exit(exitUsage)
	}
	if err := o.find(); err != nil {
		fmt.Fprintln(os.Stderr, "bellwether run:", err)
		os.Exit(exitOf(err))
	}
	os.Exit(run(o))
}

// exitOf returns the shells' exit code for a program that does not start.
func exitOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}
