package proxy

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// transport sends requests to the API server. A request that upgrades its connection, as for exec, needs
// HTTP/1.1.
type transport struct{ usual, upgrading http.RoundTripper }

func newTransport(config *rest.Config) (t transport, err error) {
	if t.usual, err = rest.TransportFor(config); err != nil {
		return transport{}, err
	}
	config = rest.CopyConfig(config)
	if config.Transport == nil { // which otherwise has protocols of its own
		config.NextProtos = []string{"http/1.1"}
	}
	t.upgrading, err = rest.TransportFor(config)
	return t, err
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.upgrading.RoundTrip(r)
	}
	return t.usual.RoundTrip(r)
}
