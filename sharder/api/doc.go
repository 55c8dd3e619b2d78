// Package api holds the configuration values that the assigner of a ring ([sharder]) and its shards
// ([shard]) share: which objects are distributed, by which key, and the labels and annotations that
// a ring writes.
//
// [sharder]: https://pkg.go.dev/github.com/bellwether-k8s/bellwether/sharder
// [shard]: https://pkg.go.dev/github.com/bellwether-k8s/bellwether/sharder/shard
package api
