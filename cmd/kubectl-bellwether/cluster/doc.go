// Package cluster reads what is shown from the API server. A read that is not allowed does not end
// the others: all missing rights are reported together, see [Rights].
package cluster
