// Package conformance says what clients may expect of a Kubernetes API server, as tables of cases.
//
// The tables have two subjects: a real kube-apiserver, which is right by definition, and the
// simulation in internal/apisim, which is right as long as it passes the same cases. So no case
// knows which of the two it talks to, and each runs as well inside a bubble of testing/synctest as
// outside.
//
// What a subject needs: the resources configmaps, leases, services, endpoints, endpointslices,
// namespaces, nodes, pods and clusterroles, reviews of who asks, and a namespace with a service
// account for the cases to work in. There are three tables, which differ in what else:
//
//   - [Cases] are about the API server alone, and find what they have left behind as they have left
//     it: no controllers.
//   - [CollectorCases] are about the garbage collector. Other controllers do no harm.
//   - [CompactionCases] make the server forget. They run one by one, and nothing beside them.
//
// Cases are independent of each other: run them in any order, those of the first two tables at the
// same time, and again under another test's name. They leave their objects behind.
//
// Not covered: discovery, admission, authorization, defaults, server-side apply, subresources other
// than the status, how long the server keeps history, how soon garbage is collected, and that
// credentials of a Pod end with it.
package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// ServiceAccount is that of the Pods of the cases. It exists in the namespace.
const ServiceAccount = "conformance"

// Case is one thing that clients may expect.
type Case struct {
	// Name is what is expected, as a sentence that starts with the verb it is about.
	Name string
	// Run fails the test if it is not so. It neither starts subtests nor goes parallel.
	Run func(t *testing.T, c *Clients)
}

// Clients is how cases talk to the server.
type Clients struct {
	Typed    kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Namespace is where the cases work. It exists.
	Namespace string
	// OfPod is how processes of a Pod talk to the server: as its service account, by credentials
	// that are bound to the Pod.
	OfPod func(context.Context, *corev1.Pod) (*rest.Config, error)
	// Collect lets the collector finish. Nil: it comes by itself, in its own time.
	Collect func()
	// Compact makes the server forget the past, caches included. Only CompactionCases need it.
	Compact func(context.Context) error
}

// NewClients returns clients that speak JSON. The configuration's rate limits are kept: without
// any, client-go's default of 5 requests per second makes the table slow.
//
// The metadata client prefers Protobuf whatever its configuration says, and also accepts JSON.
func NewClients(config *rest.Config, namespace string) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.WarningHandler = rest.NoWarnings{} // of kinds that are deprecated
	c := &Clients{Namespace: namespace}
	var err error
	if c.Typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("conformance: create typed client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("conformance: create dynamic client: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("conformance: create metadata client: %w", err)
	}
	return c, nil
}

// Cases returns the table of what the API server does.
func Cases() []Case {
	return slices.Concat(
		createCases(), getCases(), updateCases(), deleteCases(), patchCases(), listCases(), selectorCases(),
		watchCases(),
		finalizerCases(), concurrencyCases(), statusCases(), publicationCases(), sizeCases(),
		podCases(), reviewCases(),
	)
}
