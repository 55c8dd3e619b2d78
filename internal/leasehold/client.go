package leasehold

import (
	"fmt"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// ClientConfig returns a copy of config for clients that renew, with a connection of their own and
// without a rate limit.
func ClientConfig(config *rest.Config) *rest.Config {
	c := kube.ClientConfig(config)
	c.Wrap(observe)
	return c
}

// CheckRate returns an error if the client's rate limit would let a lease expire. It warns about
// any other rate limit.
func CheckRate(client kubernetes.Interface, t lease.Timing, log *zap.Logger) error {
	api := client.CoordinationV1().RESTClient()
	if api == nil || api.GetRateLimiter() == nil {
		return nil
	}
	qps, interval := api.GetRateLimiter().QPS(), t.RenewInterval()
	switch {
	case qps <= 0: // no limit
	case float64(qps)*interval.Seconds() < 2:
		return fmt.Errorf("client: must be allowed at least two requests in each renew interval of %v "+
			"(got a limit of %v per second): make it from LeaseConfig", interval, qps)
	default:
		log.Warn("the client of the lease has a rate limit: renewals wait behind other requests of that client; make "+
			"it from LeaseConfig",
			zap.Float32("qps", qps))
	}
	return nil
}
