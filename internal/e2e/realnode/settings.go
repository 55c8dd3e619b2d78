//go:build linux

package realnode

import (
	"fmt"
	"path/filepath"
)

// The network of the nodes: a bridge in the control plane's network namespace, with a cable to each
// node. Pods have addresses of their node's range.
const (
	gateway  = "10.200.0.1" // the control plane's
	bridge   = "nodes"
	podRange = "10.244.0.0/16"
)

// pauseImage is that of the container that keeps a Pod's namespaces.
const pauseImage = "localhost/pause:1"

func address(index int) string { return fmt.Sprintf("10.200.0.%d", 10+index) }

func podsOf(index int) string { return fmt.Sprintf("10.244.%d.0/24", index) }

// containerdConfig is for containerd 1.6 and later. Processes here may not raise their limits, which
// is why scores of the OOM killer stay as they are.
const containerdConfig = `version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + networkPlugins + `"
    conf_dir = "/var/lib/` + networkDir + `"
`

// networkDir has the configuration of the Pods' network, on the node's disk.
const networkDir = "net.d"

const containerdSocket = "/run/containerd/containerd.sock"

// networkConfig gives Pods addresses of the node's range.
func networkConfig(index int) string {
	return fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`, podsOf(index))
}

// kubeletConfig has the node's Lease expire, and its status be renewed, as fast as the control plane
// of package e2e expects it.
func kubeletConfig(dir, eviction string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://%s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %q}
authorization: {mode: Webhook}
failSwapOn: false
oomScoreAdj: 0
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 10s
nodeLeaseDurationSeconds: 8
imageGCHighThresholdPercent: 100
housekeepingInterval: 2s
volumePluginDir: /var/lib/kubelet/volumeplugins
evictionHard: {memory.available: %q}
evictionPressureTransitionPeriod: 5s
`, containerdSocket, filepath.Join(dir, authorityFile), eviction)
}

// proxyConfig sets no kernel parameters: they are the machine's.
func proxyConfig(name, kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: %s
hostnameOverride: %s
clientConnection: {kubeconfig: %q}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`, podRange, name, kubeconfig)
}
