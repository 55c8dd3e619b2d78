package supervisor

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
)

// credentials are what the supervisor needs of a rest.Config. Files are named, not read, because
// they may change.
type credentials struct {
	Host, APIPath, UserAgent string
	Username, Password       string
	Token, TokenFile         string
	TLS                      rest.TLSClientConfig
	Impersonate              rest.ImpersonationConfig
	DisableCompression       bool
}

// credentialsOf returns an error that names each field that another process cannot use.
func credentialsOf(c *rest.Config) (credentials, error) {
	if c == nil {
		return credentials{}, errors.New("config: must not be nil")
	}
	var errs []error
	for _, f := range []struct {
		field string
		set   bool
		why   string
	}{
		{
			"ExecProvider", c.ExecProvider != nil,
			"the supervisor runs no commands: use a token file or a certificate, or set BELLWETHER_SUPERVISOR=off",
		},
		{
			"AuthProvider", c.AuthProvider != nil,
			"the supervisor has no plug-ins: use a token file or a certificate, or set BELLWETHER_SUPERVISOR=off",
		},
		{"Transport", c.Transport != nil, "another process cannot use it: set BELLWETHER_SUPERVISOR=off"},
		{"WrapTransport", c.WrapTransport != nil, "give the config before it is wrapped"},
		{"Dial", c.Dial != nil, "another process cannot use it: set BELLWETHER_SUPERVISOR=off"},
		{
			"Proxy", c.Proxy != nil,
			"another process cannot use it: set the environment variable HTTPS_PROXY, or BELLWETHER_SUPERVISOR=off",
		},
	} {
		if f.set {
			errs = append(errs, fmt.Errorf("config.%s: must not be set: %s", f.field, f.why))
		}
	}
	token := c.BearerToken
	if c.BearerTokenFile != "" {
		token = "" // it is out of date soon
	}
	return credentials{
		Host: c.Host, APIPath: c.APIPath, UserAgent: c.UserAgent, Username: c.Username, Password: c.Password,
		Token: token, TokenFile: c.BearerTokenFile, TLS: c.TLSClientConfig, Impersonate: c.Impersonate,
		DisableCompression: c.DisableCompression,
	}, errors.Join(errs...)
}

func (c credentials) config() *rest.Config {
	return &rest.Config{
		Host: c.Host, APIPath: c.APIPath, UserAgent: c.UserAgent, Username: c.Username, Password: c.Password,
		BearerToken: c.Token, BearerTokenFile: c.TokenFile, TLSClientConfig: c.TLS, Impersonate: c.Impersonate,
		DisableCompression: c.DisableCompression,
	}
}
