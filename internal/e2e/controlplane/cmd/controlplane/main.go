// Command controlplane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and
// kube-proxy in one binary: the first argument names the component, the rest are that component's
// own flags.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("want a component: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or kube-proxy")
	}
	// The components read os.Args themselves: leave them what a binary of their own would see.
	os.Args = os.Args[1:]
	switch component := os.Args[0]; component {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kubelet":
		run(kubelet.NewKubeletCommand(context.Background()))
	case "kube-proxy":
		run(proxy.NewProxyCommand())
	default:
		fail("unknown component: " + component)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "controlplane: "+message)
	os.Exit(2)
}
