package leaderelection

import (
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// LeaseConfig returns a copy of config for the client of an [Elector], with its own connection and
// without a rate limit.
//
// Copies of one config share one HTTP/2 connection, so renewals would wait behind the workload's
// traffic, and stall when the connection dies silently. A shared rate limiter would also delay
// them. Over HTTP/1.1, a request that times out closes its connection, and the next one opens
// another. An elector needs no limit, because it paces itself. A custom config.Transport or Dial is
// kept, and must ensure the same.
func LeaseConfig(config *rest.Config) *rest.Config { return leasehold.ClientConfig(config) }
