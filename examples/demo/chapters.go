package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// chapter is a scenario with the processes of one program. It returns an error if anything
// unexpected happens.
type chapter struct {
	name, program string
	about         string
	play          func(ctx context.Context, s *stage) error
	lacks         func(place) (what string) // that it cannot be played without
}

// nodesChapter starts its own control plane, with nodes.
const nodesChapter = "nodes"

func nothing(place) string { return "" }

// noPods returns why there are no Pods of ours.
func noPods(where place) string {
	if where == foreign {
		return "it needs nodes whose kubelets it may stop: the demo has them where it starts the control plane itself."
	}
	return ""
}

// noLab returns why there can be no BMCs.
func noLab(where place) string {
	switch {
	case where != genuine:
		return "it needs nodes that are lost when their kubelets stop: CONTROLPLANE=real starts them."
	case lab.OptedOut():
		return "it needs real fence agents, and LAB=0 says to do without."
	case lab.Missing() != nil:
		return "it needs real fence agents and BMCs, which `make lab` installs. " + lab.Missing().Error()
	}
	return ""
}

// noNodes returns why there can be no nodes with a real kubelet.
func noNodes(where place) string {
	switch err := realnode.Missing(); {
	case where != genuine && where != own:
		return "it builds Kubernetes: CHAPTER=nodes or CONTROLPLANE=real."
	case err != nil:
		return "it needs nodes with a real kubelet. " + err.Error()
	}
	return ""
}

var chapters = []chapter{
	{
		"election", "leaderelection", "one of three works; its leader is killed, stopped, ended (22 s)", playElection,
		nothing,
	},
	{"life", "leaderforlife", "a Pod leads until it ends: crash, eviction, deletion (10 s)", playLife, noPods},
	{"sharding", "sharding", "shards share 1,000 objects; one joins, is killed, ends (30 s)", playSharding, nothing},
	{"endpoints", "endpoints", "servers come and go, and traffic follows (20 s)", playServing, nothing},
	{"fencing", "fencer", "a hung machine loses its power, its Pod moves on (45 s)", playFencing, noLab},
	{nodesChapter, "", "real kubelets; the machines of leaders lose their power (60 s)", playNodes, noNodes},
}

// choose returns the chapter with a name or a number, or all if that is empty.
func choose(wanted string) ([]chapter, error) {
	if wanted == "" {
		return chapters, nil
	}
	i := slices.IndexFunc(chapters, func(c chapter) bool { return c.name == wanted })
	if number, err := strconv.Atoi(wanted); err == nil && number >= 1 && number <= len(chapters) {
		i = number - 1
	}
	if i < 0 {
		return nil, fmt.Errorf("chapter: must be the name or the number of one (got %q):\n%s", wanted, contents())
	}
	return chapters[i : i+1], nil
}

// contents lists the chapters.
func contents() string {
	var list []string
	for i, c := range chapters {
		list = append(list, fmt.Sprintf("  %d  %-10s  %s", i+1, c.name, c.about))
	}
	return strings.Join(list, "\n")
}
