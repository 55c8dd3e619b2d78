// Command kwok plays the kubelets of simulated nodes, with the stages of KWOK that make nodes and pods
// ready at once. It is KWOK's controllers without its command, which also serves logs, exec and
// metrics. It is a binary of its own so that another version of Kubernetes does not need another KWOK.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/utils/client"
	"sigs.k8s.io/yaml"
)

func main() {
	// What is not a flag is a default of KWOK's command.
	config := controllers.Config{
		Clock: clock.RealClock{}, CIDR: "10.0.0.0/24",
		PodPlayStageParallelism: 4, NodePlayStageParallelism: 4, NodeLeaseParallelism: 4,
		PodsOnNodeSyncParallelism: 1, EnablePodsOnNodeSyncListPager: true,
	}
	kubeconfig := flag.String("kubeconfig", "", "file with the API server and the credentials")
	flag.StringVar(&config.ManageSingleNode, "node", "", "name of the node to play")
	flag.StringVar(&config.ManageNodesWithLabelSelector, "nodes", "", "label selector of the nodes to play")
	flag.UintVar(&config.NodeLeaseDurationSeconds, "lease", 40, "duration of the nodes' Leases, in seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, config); err != nil {
		log.Fatal("kwok: ", err)
	}
}

func run(ctx context.Context, kubeconfig string, config controllers.Config) (err error) {
	if config.LocalStages, err = stages(); err != nil {
		return err
	}
	if config.ID, err = controllers.Identity(); err != nil {
		return err
	}
	clients, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return err
	}
	server, err := clients.ToRESTConfig()
	if err != nil {
		return err
	}
	if config.DynamicClient, err = clients.ToDynamicClient(); err != nil {
		return err
	}
	if config.RESTMapper, err = clients.ToRESTMapper(); err != nil {
		return err
	}
	if config.RESTClient, err = rest.RESTClientFor(server); err != nil {
		return err
	}
	if config.TypedClient, err = kubernetes.NewForConfig(server); err != nil {
		return err
	}
	config.ImpersonatingDynamicClient = clients.ToImpersonatingDynamicClient()
	config.ImpersonatingTypedClient = clients.ToImpersonatingTypedClient()
	controller, err := controllers.NewController(config)
	if err != nil {
		return err
	}
	if err := controller.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func stages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	grouped := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		nodestages.DefaultNodeInit, podstages.DefaultPodReady, podstages.DefaultPodComplete, podstages.DefaultPodDelete,
	} {
		var stage v1alpha1.Stage
		if err := yaml.Unmarshal([]byte(text), &stage); err != nil {
			return nil, err
		}
		v1alpha1.SetObjectDefaults_Stage(&stage)
		internal, err := internalversion.ConvertToInternalStage(&stage)
		if err != nil {
			return nil, err
		}
		ref := internal.Spec.ResourceRef
		grouped[ref] = append(grouped[ref], internal)
	}
	return grouped, nil
}
