// Command controlplane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one
// binary: the first argument names the component, the rest are that component's own flags.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("want a component: etcd, kube-apiserver, kube-controller-manager or kube-scheduler")
	}
	// The components read os.Args themselves: leave them what a binary of their own would see.
	os.Args = os.Args[1:]
	switch component := os.Args[0]; component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fail("unknown component: " + component)
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "controlplane: "+message)
	os.Exit(2)
}
