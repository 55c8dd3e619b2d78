package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is how a program reaches a proxy: TLS on loopback, with a certificate and a token that are
// made for it. Other containers of the Pod share the loopback interface, and have no token.
type Access struct {
	// Host and Port are where the proxy listens.
	Host, Port string
	// CA is the certificate of the proxy, in PEM.
	CA []byte
	// Token is the bearer token of the program.
	Token string

	listener net.Listener
	server   *http.Server
}

// Listen opens the way in. Close it when the program has ended.
func Listen(handler http.Handler) (*Access, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	a := &Access{listener: listener, Token: rand.Text()}
	a.Host, a.Port, _ = net.SplitHostPort(listener.Addr().String())
	certificate, err := a.certify()
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("proxy: make a certificate: %w", err)
	}
	a.server = &http.Server{
		Handler: a.authenticated(handler), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(nowhere{}, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	return a, nil
}

// nowhere drops what net/http logs about connections that a program breaks.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// Serve answers until Close is called.
func (a *Access) Serve() error {
	if err := a.server.ServeTLS(a.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends all connections.
func (a *Access) Close() error { return a.server.Close() }

// validFor is longer than a process runs. The clock may have been wrong when it began.
const validFor = 10 * 365 * 24 * time.Hour

// certify makes a certificate that signs itself.
func (a *Access) certify() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bellwether"}, NotBefore: now.Add(-validFor),
		NotAfter: now.Add(validFor), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "kubernetes.default.svc"},
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	a.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded})
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}, nil
}

// authenticated refuses requests without the token.
func (a *Access) authenticated(handler http.Handler) http.Handler {
	wanted := []byte("Bearer " + a.Token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), wanted) != 1 {
			answer(w, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, request{},
				"the token is not that of this proxy"))
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Kubeconfig returns a kubeconfig for the program, whose default namespace this is.
func (a *Access) Kubeconfig(namespace string) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	c.Clusters["bellwether"] = &clientcmdapi.Cluster{
		Server: "https://" + net.JoinHostPort(a.Host, a.Port), CertificateAuthorityData: a.CA,
	}
	c.AuthInfos["program"] = &clientcmdapi.AuthInfo{Token: a.Token}
	c.Contexts["bellwether"] = &clientcmdapi.Context{Cluster: "bellwether", AuthInfo: "program", Namespace: namespace}
	c.CurrentContext = "bellwether"
	return clientcmd.Write(*c)
}

// WriteServiceAccount writes token, ca.crt and namespace to a directory, as a kubelet does, for clients
// that know no other way in than /var/run/secrets/kubernetes.io/serviceaccount.
func (a *Access) WriteServiceAccount(directory, namespace string) error {
	for name, data := range map[string]string{"token": a.Token, "ca.crt": string(a.CA), "namespace": namespace} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(data), 0o600); err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
	}
	return nil
}
