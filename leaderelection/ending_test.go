package leaderelection_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndingDoesNotAbandonAWrite ends the elector while the request is under way that makes it the
// leader. If that were cancelled the term would be unknown, and no candidate could lead until it
// had expired.
func TestEndingDoesNotAbandonAWrite(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var stored *coordinationv1.Lease
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		var answer any
		code := http.StatusOK
		switch r.Method {
		case http.MethodGet:
			code = http.StatusNotFound
			absent := apierrors.NewNotFound(leases.GroupResource(), "l").Status()
			absent.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			answer = absent
		default:
			if r.Method == http.MethodPost {
				end()
				assert.NoError(t, r.Context().Err(), "the write is cancelled")
			}
			stored = &coordinationv1.Lease{}
			assert.NoError(t, json.NewDecoder(r.Body).Decode(stored))
			answer = stored
		}
		body, err := json.Marshal(answer)
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, err
	})
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://api.invalid", Transport: transport,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	require.NoError(t, err)
	elector, err := leaderelection.New(client, leaderelection.Config{Namespace: "ns", Name: "l"})
	require.NoError(t, err)
	require.NoError(t, elector.Run(ctx, func(context.Context) error {
		t.Error("work began after the end")
		return nil
	}))
	require.NotNil(t, stored)
	assert.Empty(t, *stored.Spec.HolderIdentity, "and the lease is released")
}
