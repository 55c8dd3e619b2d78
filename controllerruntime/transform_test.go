package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// Without versions, the first read of a term waits for a bookmark: up to a minute, and for ever for Events,
// which have no watch cache. If one object is nil, client-go drops all of its list.
func TestATransformKeepsObjectsAndTheirVersions(t *testing.T) {
	for name, transform := range map[string]func(any) (any, error){
		"removes versions": func(o any) (any, error) {
			if m, ok := o.(metav1.Object); ok {
				m.SetResourceVersion("")
			}
			return o, nil
		},
		"returns nil": func(o any) (any, error) {
			if m, ok := o.(metav1.Object); !ok || strings.HasPrefix(m.GetName(), "hidden") {
				return nil, nil
			}
			return o, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apisim.NewServer()
				events := kubernetes.NewForConfigOrDie(server.Client("admin").Config()).CoreV1().Events("default")
				configMaps := newAdmin(t, server)
				write := func(name string) {
					configMaps.create(name)
					_, err := events.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}},
						metav1.CreateOptions{})
					require.NoError(t, err)
				}
				write("hidden-before")
				write("shown-before")
				p, terms := newProgram(t, server, "a"), newTerms()
				p.standby.Options.Cache.DefaultTransform = transform
				p.standby.Warm = []client.Object{&corev1.ConfigMap{}, &corev1.Event{}}
				read := make(chan [2]int, 1)
				stop := p.start(terms.run, func(mgr manager.Manager) error {
					var ofMaps corev1.ConfigMapList
					var ofEvents corev1.EventList
					bounded, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					assert.NoError(t, mgr.GetClient().List(bounded, &ofMaps))
					assert.NoError(t, mgr.GetClient().List(bounded, &ofEvents))
					read <- [2]int{len(ofMaps.Items), len(ofEvents.Items)}
					return nil
				})
				time.Sleep(time.Second)
				write("shown-after")
				write("hidden-after")
				time.Sleep(time.Second)
				ctx, end := context.WithCancel(t.Context())
				begin := time.Now()
				terms.begin <- ctx
				assert.Equal(t, [2]int{4, 4}, <-read)
				assert.LessOrEqual(t, time.Since(begin), 4*time.Second)
				end()
				require.NoError(t, <-terms.ended)
				require.NoError(t, stop())
			})
		})
	}
}
