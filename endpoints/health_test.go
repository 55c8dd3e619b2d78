package endpoints_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// status is what an API server answers that refuses a request.
func status(code int, text string) *oddAnswer {
	return &oddAnswer{code: code, contentType: "application/json", body: text}
}

// What an instance says must not end while it cannot do its work, and must not fill the log.
func TestInstanceWhoseRoundsFailKeepsSayingIt(t *testing.T) {
	for name, e := range map[string]struct {
		answer func(*http.Request) *oddAnswer
		why    string
	}{
		"the API server is away": {
			func(*http.Request) *oddAnswer { return &oddAnswer{code: http.StatusServiceUnavailable} },
			"unable to handle the request",
		},
		"the credentials have expired": {
			func(*http.Request) *oddAnswer {
				return status(http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
					`"message":"Unauthorized","reason":"Unauthorized","code":401}`)
			},
			"Unauthorized",
		},
		"the namespace was deleted": {
			func(r *http.Request) *oddAnswer {
				what, name := "services", "web"
				switch {
				case asks(r, "GET configmaps"):
					what, name = "configmaps", "web-endpoints"
				case r.Method != http.MethodGet:
					what, name = "namespaces", "ns"
				}
				return status(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"`+
					what+` \"`+name+`\" not found","reason":"NotFound","code":404,"details":{"kind":"`+what+
					`","name":"`+name+`"}}`)
			},
			`namespaces "ns" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
				other := newInstance(c, "10.0.0.2", nil).start(c)
				i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.MaxFailing = 2 * time.Minute })
				require.NoError(c, i.Check(nil))
				i.start(c)
				time.Sleep(time.Minute)
				require.NoError(c, i.Check(nil))
				_ = i.logs.TakeAll()

				for _, i := range []*instance{i, other} {
					i.gateway.set(e.answer)
				}
				time.Sleep(2 * time.Minute)
				require.NoError(c, i.Check(nil))
				time.Sleep(2 * interval)
				require.ErrorContains(c, i.Check(nil), "endpoints: rounds have failed for 2m")
				require.ErrorContains(c, i.Check(nil), e.why)
				require.NoError(c, other.Check(nil), "it is not asked for")
				assert.NotEmpty(c, i.logs.FilterMessage("round failed in part, retrying").All())
				for range 6 {
					_ = i.logs.TakeAll()
					time.Sleep(10*time.Minute + 2*interval)
					said := i.logs.FilterMessage("round failed in part, retrying").All()
					require.NotEmpty(c, said)
					assert.LessOrEqual(c, len(said), 2)
					assert.Contains(c, said[0].ContextMap()["error"], e.why)
					assert.Greater(c, said[0].ContextMap()["for"], 10*time.Minute)
				}

				i.gateway.set(nil)
				time.Sleep(2 * interval)
				require.NoError(c, i.Check(nil))
				again := i.logs.FilterMessage("round succeeded again").All()
				require.Len(c, again, 1)
				assert.Greater(c, again[0].ContextMap()["after"], time.Hour)
				require.NoError(c, i.stop())
			})
		})
	}
}

func TestInstanceThatIsNotReadyIsHealthy(t *testing.T) {
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.MaxFailing = time.Minute }).start(c)
		i.setReady(errUnwell)
		time.Sleep(9 * time.Minute)
		require.NoError(c, i.Check(nil))
		assert.Len(c, i.logs.FilterMessage("withdrawing this instance").All(), 1)
		time.Sleep(2 * time.Minute)
		assert.Len(c, i.logs.FilterMessage("withdrawing this instance").All(), 2, "again every 10 minutes")
		require.NoError(c, i.stop())
	})
}
