// Command relay is the least that a proxy in a process of its own can do: what the standard library's reverse proxy
// takes is the floor of BenchmarkProxy. It prints its URL and its certificate as a line of JSON.
package main

import (
	"encoding/json"
	"encoding/pem"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		log.Fatal(err)
	}
	upstream, err := url.Parse(config.Host)
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     transport,
		FlushInterval: -1,
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := json.NewEncoder(os.Stdout).Encode([]string{server.URL, string(certificate)}); err != nil {
		log.Fatal(err)
	}
	select {}
}
