// Package sharder distributes the objects of a controller over its replicas.
package sharder
