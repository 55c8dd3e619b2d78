package kube

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// ClientConfig returns a copy of config for a client with its own connections and without a rate limit.
func ClientConfig(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NextProtos = []string{"http/1.1"}
	c.RateLimiter, c.QPS, c.Burst = nil, -1, 0
	c.Timeout = 0 // it would end watches; each request has its own timeout
	return c
}

// Connection makes the requests of a client leave a connection on which no answer comes, such as
// one that a load balancer has forgotten.
//
// Over HTTP/2 all requests of a client, and of others with the same configuration, share one connection.
// A request that times out does not change that: each later one is sent into the same void until
// client-go's health check closes the connection, after 45 s by default. Over HTTP/1.1 a request that
// times out closes its connection, but the next may take another idle one that was also forgotten.
type Connection struct {
	api *rest.RESTClient // nil if the client is a fake

	multiplexed atomic.Bool // the last request was sent over HTTP/2
	silent      atomic.Bool // nothing has come since it was sent
}

// NewConnection returns the Connection of a client, for example of CoreV1().RESTClient().
func NewConnection(client rest.Interface) *Connection {
	api, _ := client.(*rest.RESTClient)
	if api != nil && api.Client == nil {
		api = nil
	}
	return &Connection{api: api}
}

// Observe returns a context for requests, which are sent one at a time.
func (c *Connection) Observe(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			over, secure := info.Conn.(*tls.Conn)
			c.multiplexed.Store(secure && over.ConnectionState().NegotiatedProtocol == "h2")
			c.silent.Store(true)
		},
		GotFirstResponseByte: func() { c.silent.Store(false) },
	})
}

// leaveTimeout bounds how long [Connection.LeaveIfSilent] takes.
const leaveTimeout = time.Second

// LeaveIfSilent makes the next request take another connection if nothing has come after the last
// one. Call it when that request has ended. Other requests on the connection continue, because it
// may be the API server that is slow.
func (c *Connection) LeaveIfSilent(ctx context.Context) {
	if c.api == nil || !c.silent.Swap(false) {
		return
	}
	if !c.multiplexed.Load() {
		utilnet.CloseIdleConnectionsFor(c.api.Client.Transport)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	// No request follows one with Close on its connection. The answer does not matter. A request that has
	// to open a connection finds the silent one closed.
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { cancel() },
		TLSHandshakeStart: cancel,
		WroteRequest:      func(httptrace.WroteRequestInfo) { cancel() },
	}), http.MethodGet, c.api.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return
	}
	request.Close = true
	if answer, err := c.api.Client.Do(request); err == nil {
		_ = answer.Body.Close()
	}
}
