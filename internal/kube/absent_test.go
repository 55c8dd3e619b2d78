package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var leases = coordinationv1.Resource("leases")

// What client-go makes of the answers that an API server or something before it may give with the
// code 404.
func TestOnlyAStatementAboutTheObjectMakesItAbsent(t *testing.T) {
	const about = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404%s}`
	for name, c := range map[string]struct {
		contentType, body string
		absent            bool
	}{
		"the object": {
			"application/json",
			fmt.Sprintf(about, `,"details":{"group":"coordination.k8s.io","kind":"leases","name":"x"}`), true,
		},
		"another object": {
			"application/json",
			fmt.Sprintf(about, `,"details":{"group":"coordination.k8s.io","kind":"leases","name":"y"}`), false,
		},
		"the namespace": {
			"application/json",
			fmt.Sprintf(about, `,"details":{"kind":"namespaces","name":"x"}`), false,
		},
		"another group": {
			"application/json", fmt.Sprintf(about, `,"details":{"kind":"leases","name":"x"}`),
			false,
		},
		"no details":             {"application/json", fmt.Sprintf(about, ``), false},
		"a page of a proxy":      {"text/html", "<html>not here</html>", false},
		"a resource not served":  {"text/plain", "404 page not found\n", false},
		"nothing at all":         {"", "", false},
		"something else in JSON": {"application/json", `{"error":"no such route"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{
				Host:          server.URL,
				ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			})
			require.NoError(t, err)
			_, err = client.CoordinationV1().Leases("default").Get(t.Context(), "x", metav1.GetOptions{})
			require.Error(t, err)
			assert.Equal(t, c.absent, kube.Absent(err, leases, "x"), "%#v", err)
		})
	}
}

func TestAbsentAcceptsFakesAndWrappedErrors(t *testing.T) {
	_, err := fake.NewClientset().CoordinationV1().Leases("default").Get(t.Context(), "x", metav1.GetOptions{})
	assert.True(t, kube.Absent(err, leases, "x"))
	assert.True(t, kube.Absent(fmt.Errorf("get: %w", err), leases, "x"))
	assert.False(t, kube.Absent(err, leases, ""), "a request without a name is not about an object")
	assert.False(t, kube.Absent(errors.New("404"), leases, "x"))
	assert.False(t, kube.Absent(apierrors.NewConflict(leases, "x", nil), leases, "x"))
	assert.False(t, kube.Absent(nil, leases, "x"))
}
