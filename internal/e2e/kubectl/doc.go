// Package kubectl tests the plugin of kubectl with real replicas on a real control plane.
package kubectl
