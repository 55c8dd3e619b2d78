package leaderelection

import (
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// LeaseConfig returns a copy of config for the client of an [Elector]: with a connection and without a rate limit of its own.
//
// Copies of one config otherwise share one HTTP/2 connection, on which renewals wait behind the workload's traffic and
// stall with it when the connection dies without a word; and the limiter of a busy client delays them. Over HTTP/1.1 a
// request that has timed out takes its connection with it, and the next one dials anew. No limit is needed: an elector
// paces itself. A custom config.Transport or Dial is kept and has to give the same on its own.
func LeaseConfig(config *rest.Config) *rest.Config { return lease.ClientConfig(config) }
