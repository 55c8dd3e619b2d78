package lease

import "k8s.io/client-go/rest"

// ClientConfig returns a copy of config for a client that renews: with a connection and without a rate limit of its own. It may share them
// with other such clients.
func ClientConfig(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NextProtos = []string{"http/1.1"}
	c.RateLimiter, c.QPS, c.Burst = nil, -1, 0
	c.Wrap(observe)
	c.Timeout = 0 // would cut watches; each request has a timeout of its own
	return c
}
