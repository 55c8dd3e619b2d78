// Package memory tests every primitive with real processes on an API server in memory: they are killed,
// stopped and ended, and others take over. It needs neither etcd nor Kubernetes, so it is quick. What
// needs more than the API server, or its failures, is tested on a real control plane, in the packages
// beside this one.
package memory
