// Command node is kubelet and kube-proxy in one binary: the first argument names the component, the
// rest are that component's own flags.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("want a component: kubelet or kube-proxy")
	}
	// The components read os.Args themselves: leave them what a binary of their own would see.
	os.Args = os.Args[1:]
	switch component := os.Args[0]; component {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	default:
		fail("unknown component: " + component)
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "node: "+message)
	os.Exit(2)
}
