// Package deploy has the tests of the bundles and components in deploy/. They are rendered as
// kubectl apply -k does, and applied to a real API server.
package deploy
