// Package conformance says what clients may expect of a Kubernetes API server, as a table of cases.
//
// The table has two subjects: a real kube-apiserver, which is right by definition, and the simulation in
// internal/apisim, which is right as long as it passes the same cases. So no case knows which of the two it talks to,
// and each runs as well inside a bubble of testing/synctest as outside.
//
// What a subject needs: the resources configmaps, leases, namespaces and clusterroles, a namespace for the cases to
// work in, and a history that no longer reaches back to resourceVersion 1. What it must not have is a controller: the
// cases are about the API server alone, and find what they have left behind as they have left it.
//
// Cases are independent of each other: run them in any order, at the same time, and again under another test's name.
// They leave their objects behind.
//
// Not covered: discovery, admission, authorization, server-side apply, subresources, and how long the server keeps
// history.
package conformance

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

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
}

// NewClients returns clients that speak JSON. The configuration's rate limits are kept: without any, client-go's
// default of 5 requests per second makes the table slow.
//
// The metadata client prefers Protobuf whatever it is told, and takes JSON for an answer too.
func NewClients(config *rest.Config, namespace string) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
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

// Cases returns the table.
func Cases() []Case {
	return slices.Concat(
		createCases(), getCases(), updateCases(), deleteCases(), patchCases(), listCases(), selectorCases(), watchCases(),
		finalizerCases(), concurrencyCases(),
	)
}
