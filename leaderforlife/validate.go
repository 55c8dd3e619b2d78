package leaderforlife

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// namespaceFile contains the Pod's namespace. The kubelet mounts it.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// minPollInterval is the lower bound of WithPollInterval.
const minPollInterval = 100 * time.Millisecond

// newConfig applies options and defaults. The error joins one error for each broken rule.
func newConfig(lock string, options []Option) (config, error) {
	c := config{lock: lock, pollInterval: 5 * time.Second, processLock: process.Lock}
	for _, option := range options {
		option(&c)
	}
	review := lease.Review{Package: "leaderforlife"}
	review.Value("lockName", c.lock, append(validation.IsDNS1123Subdomain(c.lock), tooLong(c.lock)...))
	if c.podName != "" {
		review.Value("WithPodName", c.podName, validation.IsDNS1123Subdomain(c.podName))
	}
	if c.pollInterval < minPollInterval {
		review.Add(fmt.Errorf("WithPollInterval: must be at least %v (got %v)", minPollInterval, c.pollInterval))
	}
	noNamespace := c.findNamespace()
	if noNamespace == nil {
		review.Value("WithNamespace", c.namespace, validation.IsDNS1123Label(c.namespace))
	}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	c.log = c.log.With(zap.String("lock", c.namespace+"/"+c.lock))
	return c, errors.Join(review.Err(), noNamespace, c.connect())
}

// tooLong checks the length of the lock's name, which becomes part of a label key.
func tooLong(lock string) []string {
	if len(lock) > validation.LabelValueMaxLength {
		return []string{validation.MaxLenError(validation.LabelValueMaxLength)}
	}
	return nil
}

// findNamespace sets the namespace from the environment or the kubelet's file.
func (c *config) findNamespace() error {
	if c.namespace == "" {
		c.namespace = os.Getenv("POD_NAMESPACE")
	}
	if c.namespace == "" {
		if content, err := os.ReadFile(namespaceFile); err == nil {
			c.namespace = strings.TrimSpace(string(content))
		}
	}
	if c.namespace == "" {
		return ErrNoNamespace
	}
	return nil
}

// connect creates a client unless one is set.
func (c *config) connect() error {
	if c.client != nil {
		return nil
	}
	var err error
	if c.rest == nil {
		if c.rest, err = rest.InClusterConfig(); err != nil {
			return fmt.Errorf("leaderforlife: no client: %w: outside of a Pod, set it by WithConfig or WithClient", err)
		}
	}
	own := rest.CopyConfig(c.rest)
	// A candidate limits its own rate. client-go's default would delay a succession by seconds.
	own.RateLimiter, own.QPS, own.Burst = nil, -1, 0
	if c.client, err = kubernetes.NewForConfig(own); err != nil {
		return fmt.Errorf("leaderforlife: WithConfig: make a client: %w", err)
	}
	return nil
}
