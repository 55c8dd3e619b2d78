// Command fencejob runs in the pods of package fencejobs. It executes the request in the file
// /run/fencejob/request with one fence agent, and writes the answer to /dev/termination-log. It
// does nothing on the node that the request is about, or when its time is over.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c := fencejobs.ExecuteConfig{Node: os.Getenv(fencejobs.NodeEnv)}
	flag.StringVar(&c.RequestPath, "request", fencejobs.RequestPath, "file with what to do")
	flag.StringVar(&c.ResultPath, "result", fencejobs.ResultPath, "file for the answer")
	agents := fenceagents.Config{}
	flag.StringVar(&agents.Directory, "agents", "/usr/sbin", "directory of the fence agents")
	flag.Func(
		"pass",
		"name of a variable that agents get of this program's environment; more than once",
		func(name string) error {
			if value, ok := os.LookupEnv(name); ok {
				agents.Environment = append(agents.Environment, name+"="+value)
			}
			return nil
		},
	)
	flag.Parse()
	var err error
	if c.Agents, err = fenceagents.New(agents); err != nil {
		return err
	}
	return fencejobs.Execute(ctx, c)
}
