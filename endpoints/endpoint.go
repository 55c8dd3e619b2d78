package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Port is a port that an instance serves.
type Port struct {
	// Name of the Service's port: a DNS-1123 label, or empty if the Service has only one port.
	Name string `json:"name,omitempty"`
	// Number that the instance listens on, from 1 to 65535.
	Number int32 `json:"port"`
	// Protocol is TCP, UDP or SCTP. Default: TCP.
	Protocol corev1.Protocol `json:"protocol"`
	// AppProtocol is a hint for clients, such as "kubernetes.io/h2c". Optional.
	AppProtocol string `json:"appProtocol,omitempty"`
}

// Endpoint is an address and a port under which an instance can be reached.
type Endpoint struct {
	Address netip.Addr
	Port    Port
}

// family returns IPv4 or IPv6, as in the address type of an EndpointSlice.
func (e Endpoint) family() string {
	if e.Address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// String returns address:port, as one would dial it.
func (e Endpoint) String() string {
	return netip.AddrPortFrom(e.Address, uint16(e.Port.Number)).String()
}

// destination returns where clients of the Service connect to: e without what only names it.
func (e Endpoint) destination() Endpoint {
	return Endpoint{e.Address, Port{Number: e.Port.Number, Protocol: e.Port.Protocol}}
}

// among reports whether an element of all has the same destination, which two instances cannot both
// serve, whatever name they give it.
func (e Endpoint) among(all []Endpoint) bool {
	return slices.ContainsFunc(all, func(o Endpoint) bool { return e.destination() == o.destination() })
}

// compare orders endpoints by family, address and port.
func (e Endpoint) compare(o Endpoint) int {
	return cmp.Or(e.Address.Compare(o.Address), e.Port.compare(o.Port))
}

func (p Port) compare(o Port) int {
	return cmp.Or(cmp.Compare(p.Number, o.Number), cmp.Compare(p.Name, o.Name), cmp.Compare(p.Protocol, o.Protocol),
		cmp.Compare(p.AppProtocol, o.AppProtocol))
}

// entryKey returns the key of an address and port in a [ConfigMapStore]: ip-<address>-<port>, with
// - for each . and : of the address. It is unambiguous for the addresses that Config accepts.
func entryKey(address netip.Addr, port int32) string {
	return fmt.Sprintf("ip-%s-%d", strings.NewReplacer(".", "-", ":", "-").Replace(address.Unmap().String()), port)
}

// errKey is returned for a key that [entryKey] cannot return.
var errKey = errors.New("the key must be ip-<address>-<port>, with - for each . and : of the address in its shortest " +
	"form")

// parseEntryKey reverses [entryKey].
func parseEntryKey(key string) (netip.Addr, int32, error) {
	name, ok := strings.CutPrefix(key, "ip-")
	end := strings.LastIndexByte(name, '-')
	if !ok || end < 0 {
		return netip.Addr{}, 0, errKey
	}
	port, err := strconv.ParseUint(name[end+1:], 10, 16)
	if err != nil {
		return netip.Addr{}, 0, errKey
	}
	for _, separator := range []string{".", ":"} {
		address, err := netip.ParseAddr(strings.ReplaceAll(name[:end], "-", separator))
		if err == nil && entryKey(address, int32(port)) == key { // otherwise one endpoint could have several entries
			return address, int32(port), nil
		}
	}
	return netip.Addr{}, 0, errKey
}

// addressProblems returns why the API server would refuse an EndpointSlice with this address. It
// must find every reason, because one bad address would make the API server refuse the whole slice.
func addressProblems(a netip.Addr) []string {
	switch {
	case !a.IsValid():
		return []string{"must be an IP address"}
	case a.Zone() != "":
		return []string{"must not have a zone: it means nothing on other machines"}
	case a.Is4In6():
		return []string{"must not be an IPv4 address mapped to IPv6"}
	case a.IsUnspecified(), a.IsLoopback(), a.IsLinkLocalUnicast(), a.IsMulticast():
		return []string{"must not be unspecified, loopback, link-local or multicast: Kubernetes publishes no such " +
			"address"}
	}
	return nil
}

// problems returns why the API server would refuse a slice with this port.
func (p Port) problems() []string {
	var problems []string
	if p.Name != "" {
		for _, problem := range validation.IsDNS1123Label(p.Name) {
			problems = append(problems, fmt.Sprintf("Name: %s (got %q)", problem, p.Name))
		}
	}
	for _, problem := range validation.IsValidPortNum(int(p.Number)) {
		problems = append(problems, fmt.Sprintf("Number: %s (got %d)", problem, p.Number))
	}
	switch p.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		problems = append(problems, fmt.Sprintf("Protocol: must be TCP, UDP or SCTP (got %q)", p.Protocol))
	}
	if p.AppProtocol != "" {
		for _, problem := range validation.IsQualifiedName(p.AppProtocol) {
			problems = append(problems, fmt.Sprintf("AppProtocol: %s (got %q)", problem, p.AppProtocol))
		}
	}
	return problems
}

// problem returns the first reason why an endpoint from the store cannot be published, or nil.
func (e Endpoint) problem() error {
	if problems := addressProblems(e.Address); len(problems) > 0 {
		return fmt.Errorf("address: %s (got %q)", problems[0], e.Address)
	}
	if problems := e.Port.problems(); len(problems) > 0 {
		return fmt.Errorf("port: %s", problems[0])
	}
	return nil
}

// list joins endpoints for a reader.
func list(all []Endpoint) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, ", ")
}
