// Package conformance states what clients may expect of a Kubernetes API server, as tables of cases.
//
// The tables have two subjects: a real kube-apiserver, which is right by definition, and the
// simulation in internal/apisim, which is right as long as it passes the same cases. So no case
// depends on which of the two it uses, and each runs both inside and outside a bubble of
// testing/synctest.
//
// A subject needs the resources configmaps, leases, services, endpoints, endpointslices,
// namespaces, nodes, pods and clusterroles, SelfSubjectReviews, and a namespace with a service
// account for the cases to work in. Three tables differ in what else they need:
//
//   - [Cases] are about the API server alone. They need their objects left alone, so no controllers may run.
//   - [CollectorCases] are about the garbage collector; other controllers do no harm.
//   - [CompactionCases] make the server forget. They run one by one, with nothing beside them.
//
// Cases are independent of each other: run them in any order, those of the first two tables in
// parallel, and again under another test's name. They leave their objects behind.
//
// They do not cover discovery, admission, authorization, defaults, server-side apply, subresources
// other than the status, how long the server keeps history, how soon garbage is collected, or that
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

// Case is one expectation of clients.
type Case struct {
	// Name is what is expected, as a sentence that starts with the verb it is about.
	Name string
	// Run fails the test unless the expectation holds. It neither starts subtests nor runs in parallel.
	Run func(t *testing.T, c *Clients)
}

// Clients are the cases' clients of the server.
type Clients struct {
	Typed    kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Namespace is the existing namespace where the cases work.
	Namespace string
	// OfPod returns the configuration of a Pod's processes, which use its service account with
	// credentials that are bound to the Pod.
	OfPod func(context.Context, *corev1.Pod) (*rest.Config, error)
	// Collect lets the collector finish. If nil, it runs by itself in its own time.
	Collect func()
	// Compact makes the server forget the past, caches included. Only CompactionCases need it.
	Compact func(context.Context) error
}

// NewClients returns clients that speak JSON. The configuration's rate limits are kept; without
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

// Cases returns the table of the API server's behaviour.
func Cases() []Case {
	return slices.Concat(
		createCases(), getCases(), updateCases(), deleteCases(), patchCases(), listCases(), selectorCases(),
		watchCases(),
		finalizerCases(), concurrencyCases(), statusCases(), publicationCases(), sizeCases(),
		podCases(), reviewCases(),
	)
}
