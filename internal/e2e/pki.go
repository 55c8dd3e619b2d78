package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const certificateLifetime = 365 * 24 * time.Hour

// pki is the certificate authority of one control plane.
type pki struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	ca          []byte // PEM of certificate
}

func newPKI() (*pki, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("e2e: create certificate authority: %w", err)
	}
	template := newTemplate(pkix.Name{CommonName: "bellwether-e2e"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("e2e: create certificate authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("e2e: create certificate authority: %w", err)
	}
	return &pki{certificate: certificate, key: key, ca: pemCertificate(der)}, nil
}

// client mints a certificate that identifies a user to the API server.
func (p *pki) client(user string, groups []string) (certificate, key []byte, err error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.issue(template)
}

// server mints a certificate for the loopback address, any port: it holds behind a [Proxy] too. With
// another address it is one for that and for the API server's Service, too.
func (p *pki) server(address string) (certificate, key []byte, err error) {
	template := newTemplate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	if address != "" {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address), net.IPv4(10, 0, 0, 1))
		template.DNSNames = append(template.DNSNames, "kubernetes.default.svc")
	}
	return p.issue(template)
}

func (p *pki) issue(template *x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("e2e: issue certificate for %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.certificate, private.Public(), p.key)
	if err != nil {
		return nil, nil, fmt.Errorf("e2e: issue certificate for %s: %w", template.Subject.CommonName, err)
	}
	key, err = pemKey(private)
	return pemCertificate(der), key, err
}

// Files that the API server and the controller manager read.
const (
	caFile             = "ca.crt"
	servingCertificate = "apiserver.crt"
	servingKey         = "apiserver.key"
	serviceAccountKey  = "service-account.key"

	kubeletClientCertificate = "kubelet-client.crt"
	kubeletClientKey         = "kubelet-client.key"
)

// write puts what the servers need into dir.
func (p *pki) write(dir, address string) error {
	certificate, key, err := p.server(address)
	if err != nil {
		return err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("e2e: create service account key: %w", err)
	}
	signerPEM, err := pemKey(signer)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, caFile), p.ca, 0o600),
		os.WriteFile(filepath.Join(dir, servingCertificate), certificate, 0o600),
		os.WriteFile(filepath.Join(dir, servingKey), key, 0o600),
		os.WriteFile(filepath.Join(dir, serviceAccountKey), signerPEM, 0o600),
	)
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // tests turn clocks
		NotAfter:     now.Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func pemCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func pemKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("e2e: encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
