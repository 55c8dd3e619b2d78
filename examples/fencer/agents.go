package main

import (
	"flag"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
)

// agents returns what runs the fence agents: this process, or Jobs (jobs.yaml) if the flags name an
// image for them.
type agents struct {
	here fenceagents.Config
	jobs fencejobs.Config
}

func (a *agents) flags() {
	flag.StringVar(&a.here.Directory, "agents", "/usr/sbin", "directory of the fence agents")
	flag.StringVar(&a.jobs.Image, "jobs-image", "",
		"run fence agents as Jobs with this image, which has them and fencejob; empty: run them here")
	flag.StringVar(&a.jobs.Namespace, "jobs-namespace", "fencer-jobs", "namespace of these Jobs")
	flag.StringVar(&a.jobs.Pod.Spec.PriorityClassName, "jobs-priority", "", "priority class of their Pods")
	flag.DurationVar(&a.jobs.ClockSkew, "clock-skew", 5*time.Second,
		"by how much the clocks of any two nodes differ at most, for Jobs")
}

func (a *agents) new(client kubernetes.Interface, log *zap.Logger) (fencing.Agents, error) {
	if a.jobs.Image == "" {
		a.here.Logger = log
		return fenceagents.New(a.here)
	}
	a.jobs.Logger = log
	return fencejobs.New(client, a.jobs)
}
