// Command verify runs the parts of make verify, one after the other, and reports how long each took.
// A part that fails does not stop the others.
//
// With a budget, the parts that every change needs run first, however long they take. The others
// follow in an order that rotates with the number of commits, as long as the time suffices for what
// each is expected to take on this machine. Parts that do not run are named.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	program := flag.String("make", "make", "the program make")
	budget := flag.Duration("budget", 0, "how long to run; 0: until every part has run")
	commits := flag.Int("commits", 0, "number of commits, which decides where the rotation begins")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	v := &verification{
		budget: *budget, now: time.Now, out: os.Stdout,
		run: func(ctx context.Context, target string, slow bool) error {
			command := exec.CommandContext(ctx, *program, "--no-print-directory", target)
			if slow {
				command.Args = append(command.Args, "SLOW=1")
			}
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
			return command.Run()
		},
	}
	if err := v.verify(ctx, order(parts, *commits)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
