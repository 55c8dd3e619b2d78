// Package api has the values that package fencing is configured with and what it decides: limits,
// the selection of nodes and volumes, and decisions with their reasons.
package api
