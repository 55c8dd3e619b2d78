package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fencing"
)

// assess reports what would happen to each node. It reads the devices from this process and changes nothing.
func assess(ctx context.Context, config *rest.Config, fencer fencing.Config, agents agents) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	fences, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if fencer.Agents, err = agents.new(client, fencer.Logger); err != nil {
		return err
	}
	fencer.Leadership = powerless{}
	controller, err := fencing.New(client, fences, fencer)
	if err != nil {
		return err
	}
	all, err := controller.Assess(ctx)
	if err != nil {
		return err
	}
	return report(all)
}

// powerless is the elector of a process that only assesses and never leads.
type powerless struct{}

func (powerless) Remaining() time.Duration { return 0 }

// report prints what would happen to each node. Its error names nodes that could not be fenced.
func report(all []fencing.Assessment) error {
	bad := map[string]bool{}
	for _, a := range all {
		fmt.Printf("%s\tby %s\tnow: %v %s", a.Node, a.Object, a.Decision.Verdict, a.Decision.Reason)
		if a.Decision.Message != "" {
			fmt.Printf(" (%s)", a.Decision.Message)
		}
		fmt.Println()
		for _, w := range a.Warnings {
			fmt.Printf("\twarning: %s\n", w)
		}
		for _, device := range a.Unproved {
			fmt.Printf("\tnot commissioned: %s\n", device)
		}
		if a.Err != nil {
			bad[a.Node] = true
			fmt.Printf("\tcannot be fenced: %s\n", strings.ReplaceAll(a.Err.Error(), "\n", "\n\t\t"))
		}
	}
	if len(bad) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(bad)), ", ")
		return fmt.Errorf("%d of %d nodes could not be fenced: %s", len(bad), len(all), names)
	}
	return nil
}
