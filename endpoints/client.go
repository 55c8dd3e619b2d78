package endpoints

import (
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// ClientConfig returns a copy of config for the client of a [Reconciler]: with its own connection and
// without a rate limit.
//
// Copies of one config share one HTTP/2 connection: heartbeats would wait behind other traffic, and the
// rate limiter of a shared client would delay them too. A Reconciler needs no limit, because it paces
// itself. A custom config.Transport or Dial is kept, and must ensure the same.
func ClientConfig(config *rest.Config) *rest.Config { return kube.ClientConfig(config) }

// warnOfRateLimit warns if the client has a rate limit.
func warnOfRateLimit(client kubernetes.Interface, log *zap.Logger) {
	api := client.CoreV1().RESTClient()
	if api == nil || api.GetRateLimiter() == nil {
		return
	}
	if qps := api.GetRateLimiter().QPS(); qps > 0 {
		log.Warn("the client of the instance has a rate limit: heartbeats wait behind other requests of that client; "+
			"make it from ClientConfig", zap.Float32("qps", qps))
	}
}
