// Package live runs real programs on an API server in memory, and reads their metrics over HTTP, as
// Prometheus does. What happens to the programs is what happens in the demo. The programs of most of
// its chapters serve no metrics, as the root module does not depend on Prometheus. So these take part:
//
//   - job digests: examples/controllerruntime, a sharded operator with an election;
//   - job fencer: examples/fencer. Its machines are played here, and its fence agent is a script
//     that switches files;
//   - job daemon: a server behind a Service, with a leader for life. Its Pods are played here.
package live
