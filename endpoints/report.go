package endpoints

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// readSettings updates the expiry from the run-time setting. The error is why the last good value stays.
func (r *Reconciler) readSettings(ctx context.Context) error {
	if r.config.Settings == "" {
		return nil
	}
	ctx, cancel := r.share(ctx)
	defer cancel()
	at := types.NamespacedName{Namespace: r.config.Namespace, Name: r.config.Settings}
	m, err := r.client.CoreV1().ConfigMaps(r.config.Namespace).Get(ctx, r.config.Settings, metav1.GetOptions{})
	if err != nil {
		return configMaps.failed(ctx, "get", at, err)
	}
	d, err := parseSetting(m.Data)
	if err != nil {
		return fmt.Errorf("endpoints: ConfigMap %v: %w", at, err)
	}
	if d != r.settings.expireAfter {
		r.settings.expireAfter = d
		r.config.Logger.Info("expiry changed", zap.Duration("expire-duration", d))
		if r.config.Hooks.OnExpireAfter != nil {
			r.config.Hooks.OnExpireAfter(d)
		}
	}
	return nil
}

// missingPorts returns an error if the Service lacks ports of this instance. Clients find a port by
// its name and protocol, which both must share.
func (r *Reconciler) missingPorts(s *corev1.Service) error {
	if len(s.Spec.Ports) == 0 { // as of a headless Service
		return nil
	}
	served := make([]string, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		served = append(served, portName(p.Name, p.Protocol))
	}
	var missing []string
	for _, p := range r.config.Ports {
		if name := portName(p.Name, p.Protocol); !slices.Contains(served, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("endpoints: Service %v has no port %s: add it to spec.ports, or rename it in Config.Ports "+
		"(the Service has %s)", r.config.service(), strings.Join(missing, ", "), strings.Join(served, ", "))
}

func portName(name string, protocol corev1.Protocol) string {
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return fmt.Sprintf("%q of %s", name, protocol)
}

// missingFamilies returns an error if the Service lacks the family of an address of this instance, because
// then no node routes to it. Clients of a headless Service find all addresses in DNS.
func (r *Reconciler) missingFamilies(s *corev1.Service) error {
	has := s.Spec.IPFamilies
	if len(has) == 0 || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	var missing []string
	for _, a := range r.config.Addresses {
		if !slices.Contains(has, corev1.IPFamily(Endpoint{Address: a}.family())) {
			missing = append(missing, a.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("endpoints: Service %v has no address of the family of %s: set spec.ipFamilyPolicy or "+
		"spec.ipFamilies, or change Config.Addresses (the Service has %v)", r.config.service(),
		strings.Join(missing, ", "), has)
}

// report records what the store holds, and reports malformed entries.
func (p *pass) report(s snapshot) {
	now := p.config.clock.Now()
	p.result.Entries = []Status{}
	maps.DeleteFunc(p.malformed, func(key, mark string) bool {
		return s.entries[key].problem == nil || s.entries[key].mark != mark
	})
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		e := s.entries[key]
		status := p.status(key, e, now)
		p.result.Entries = append(p.result.Entries, status)
		if _, told := p.malformed[key]; told || e.problem == nil {
			continue
		}
		p.malformed[key] = e.mark
		p.config.Logger.Warn("ignoring malformed entry", zap.String("entry", key), zap.Error(e.problem))
		p.event(corev1.EventTypeWarning, "EndpointMalformed", "Ignore", "entry %s is not published: %v", key, e.problem)
		if p.config.Hooks.OnMalformed != nil {
			p.config.Hooks.OnMalformed(status)
		}
	}
}

// reportPredecessor reports the removal of an entry that an earlier process of this Pod left.
func (r *Reconciler) reportPredecessor(key string, e entry) {
	r.config.Logger.Info("withdrawn", zap.Strings("entries", []string{key}))
	r.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn: left by an earlier process",
		list(e.endpoints))
}

func (r *Reconciler) status(key string, e entry, now clock.Reading) Status {
	return Status{
		Key: key, Own: slices.Contains(r.store.own(), key), Endpoints: e.endpoints,
		Unchanged: r.expiry.age(key, now), Problem: e.problem,
	}
}

// list joins endpoints for a reader.
func list(all []Endpoint) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, ", ")
}
