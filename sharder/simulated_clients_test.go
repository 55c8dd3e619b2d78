package sharder_test

import (
	"sync"

	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// clientset has clients of the API groups that a replica uses. A schedule starts dozens of
// processes, and kubernetes.NewForConfig makes clients of all groups.
type clientset struct {
	kubernetes.Interface // nil, for all other groups
	core                 func() coreclient.CoreV1Interface
	coordination         func() coordinationclient.CoordinationV1Interface
}

func clientsFor(c *rest.Config) kubernetes.Interface {
	return clientset{
		core: sync.OnceValue(func() coreclient.CoreV1Interface { return coreclient.NewForConfigOrDie(c) }),
		coordination: sync.OnceValue(func() coordinationclient.CoordinationV1Interface {
			return coordinationclient.NewForConfigOrDie(c)
		}),
	}
}

// CoreV1 implements [kubernetes.Interface].
func (c clientset) CoreV1() coreclient.CoreV1Interface { return c.core() }

// CoordinationV1 implements [kubernetes.Interface].
func (c clientset) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return c.coordination()
}
