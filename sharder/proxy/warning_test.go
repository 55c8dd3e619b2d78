package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// A program that has nothing to write asks nothing, and what it writes beside the ring is no mistake.
func TestAProgramBehindAProxyIsNotWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		program func(*testing.T, *member)
		warned  string
	}{
		"it lists": {program: func(t *testing.T, m *member) { assert.Len(t, m.names(t), 1) }},
		"it watches": {program: func(t *testing.T, m *member) {
			w, err := m.client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
			assert.NoError(t, err)
			w.Stop()
		}},
		"it writes": {program: func(t *testing.T, m *member) {
			assert.Len(t, m.names(t), 1)
			const namespace = "/api/v1/namespaces/default/"
			for _, write := range []struct {
				method, path, kind string
				code               int
			}{
				{http.MethodPost, namespace + "secrets", "Secret", http.StatusCreated},
				{http.MethodDelete, namespace + "secrets/alone", "", http.StatusOK},
				{http.MethodPut, namespace + "configmaps/alone", "ConfigMap", http.StatusNotFound},
			} {
				body := ""
				if write.kind != "" {
					body = `{"apiVersion":"v1","kind":"` + write.kind + `","metadata":{"name":"alone"}}`
				}
				got := m.ask(write.method, write.path, "application/json", body)
				assert.Equal(t, write.code, got.Code, "%s", got.Body)
			}
		}},
		"it goes around the proxy": {
			program: func(*testing.T, *member) {}, warned: "nothing asks the shard about objects of this resource",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := newServer(t, 1)
				core, logs := observer.New(zap.WarnLevel)
				a := joinAs(t, server, replica.Config{Identity: "a", Logger: zap.New(core)}, nil)
				defer a.leave(t)
				synctest.Wait()
				c.program(t, a)
				settle()
				if c.warned == "" {
					assert.NoError(t, a.Shard.Check(nil))
					assert.Empty(t, logs.All())
					return
				}
				assert.ErrorContains(t, a.Shard.Check(nil), c.warned)
				assert.Len(t, logs.All(), 1)
			})
		})
	}
}
