// Package cluster reads what is shown from the API server. A forbidden read does not stop the
// others, and all missing rights are reported together (see [Rights]).
package cluster
