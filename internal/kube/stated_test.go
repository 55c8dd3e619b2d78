package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

func TestOnlyAStatusStatesAnything(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,` +
		`"message":"leases \"x\" is forbidden: User \"u\" cannot get resource \"leases\" in API ` +
		`group","details":{"group":"coordination.k8s.io","kind":"leases","name":"x"}}`
	for name, c := range map[string]struct {
		code              int
		contentType, body string
		stated, refused   bool
	}{
		"RBAC":                   {403, "application/json", status, true, true},
		"a page of a proxy":      {403, "text/html", "<html>log in first</html>", false, false},
		"text":                   {403, "text/plain", "no", false, false},
		"something else in JSON": {403, "application/json", `{"error":"no session"}`, false, false},
		"nothing at all":         {403, "", "", false, false},
		"another code": {
			409, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict",` +
				`"code":409}`, true, false,
		},
		"another page": {409, "text/html", "<html></html>", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{
				Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			})
			require.NoError(t, err)
			_, err = client.CoordinationV1().Leases("default").Get(t.Context(), "x", metav1.GetOptions{})
			require.Error(t, err)
			assert.Equal(t, c.stated, kube.Stated(err), "%#v", err)
			assert.Equal(t, c.refused, kube.RoleMissing(fmt.Errorf("get: %w", err)), "%#v", err)
		})
	}
	assert.False(t, kube.Stated(nil))
	assert.False(t, kube.Stated(errors.New("connection refused")))
	assert.False(t, kube.RoleMissing(nil))
}
