package nodeconfig

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// assemble adds the values of a method to its device. It returns false after an error that leaves the
// device undetermined.
func (s *subject) assemble(d *definition, device *nodeplan.Device) bool {
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		v := d.values[name]
		if ref, isSecret := v.secret(); isSecret {
			device.Arguments = append(device.Arguments, nodeplan.Argument{Name: name, Value: nodeplan.InSecret(ref)})
		} else if text, ok := s.expand(name, v, d.agent); ok {
			texts[name] = text
			value := nodeplan.Text(text, password(name))
			device.Arguments = append(device.Arguments, nodeplan.Argument{Name: name, Value: value})
		}
	}
	hasPlug := s.checkRequired(d)
	return s.identify(d, device, texts) && hasPlug
}

// identify sets what distinguishes the device from others. It returns false if nothing does.
func (s *subject) identify(d *definition, device *nodeplan.Device, texts map[string]string) bool {
	agent, plug := d.agent, d.agent.current["plug"]
	if agent.isList(texts[plug], texts["plug_separator"]) {
		s.problem(d.values[plug].at, "plug must be one: devices were seen to switch the first of a list only",
			texts[plug])
	}
	if !s.checkPortAsIP(d, texts) {
		return false
	}
	written := map[string]string{}
	for name, v := range d.values {
		written[name] = v.value
		if _, usable := texts[name]; !usable && agent.identifies(name) {
			return false // already reported
		}
	}
	at, general := agent.locate(texts), agent.locate(written)
	if !at.known() {
		s.problem(d.at, "method must say which device is meant: the agent's defaults are never used for that", "")
		return false
	}
	if s.general && !general.contains("{{") {
		s.problem(d.at, "address or plug must have a placeholder such as "+nodeNamePlaceholder+
			" in a configuration of several nodes", strings.TrimSpace(at.address+" "+at.plug))
	}
	device.Key = url.PathEscape(agent.Name) + "/" + at.String()
	device.Identity = device.Key
	queue := device.Key
	if at.address != "" { // otherwise the agent knows its plugs
		queue = agent.Name + " " + location{address: at.address, port: at.port}.String()
		// Two protocols do not share a port, so another agent on it is for the same device.
		at.port = cmp.Or(at.port, agent.parameters[agent.current["ipport"]].Default)
		device.Identity = at.String()
	}
	device.Queue = cmp.Or(device.Queue, queue)
	// The node's name does not count, because names are unique.
	device.Claimed = general.contains(providerIDPlaceholder) || general.contains(instanceIDPlaceholder)
	return true
}

// checkPortAsIP checks agents without plugs. They ignore their parameter plug or use it as the
// address, whatever port_as_ip is.
func (s *subject) checkPortAsIP(d *definition, texts map[string]string) bool {
	portAsIP, plug := d.agent.current["port_as_ip"], d.agent.current["plug"]
	given, isGiven := d.values[portAsIP]
	_, hasPlug := d.values[plug]
	switch {
	case portAsIP == "":
	case isGiven && !slices.Contains(truths, strings.ToLower(texts[portAsIP])):
		s.problem(given.at, portAsIP+" must be 1 or be left out: agents take 0 for 1", texts[portAsIP])
		return false
	case hasPlug && !isGiven:
		s.problem(d.values[plug].at,
			plug+" must be left out without "+portAsIP+"=1: "+d.agent.Name+" has no plugs, and ignores it", texts[plug])
		return false
	}
	return true
}

// location determines a device and its plug. Some devices have no plugs, and some agents need no
// address.
type location struct {
	address, port, plug string
	within              []string // name=value of parameters between them
	asksForAddress      bool
}

func (l location) known() bool {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	return !blank(l.address) || !l.asksForAddress && (!blank(l.plug) || len(l.within) > 0)
}

// contains reports whether a text, such as a placeholder, is a part of it.
func (l location) contains(text string) bool {
	return strings.Contains(l.address+l.port+l.plug+strings.Join(l.within, ""), text)
}

// String returns address:port/plug and the parameters within the device. Different locations have
// different strings, because the parts are escaped.
func (l location) String() string {
	address := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(l.address)), ".")
	if ip, err := netip.ParseAddr(strings.Trim(address, "[]")); err == nil {
		address = ip.Unmap().String()
	}
	switch {
	case l.port != "":
		address = net.JoinHostPort(address, l.port)
	case strings.Contains(address, ":"):
		address = "[" + address + "]"
	}
	parts := append([]string{address, l.plug}, l.within...)
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// locate reads a location from parameters by their present names.
func (k *knownAgent) locate(texts map[string]string) location {
	of := func(name string) string { return texts[k.current[name]] }
	l := location{address: of("ip"), port: of("ipport"), plug: of("plug"), asksForAddress: k.current["ip"] != ""}
	if of("port_as_ip") != "" && l.plug != "" {
		l.address, l.plug = l.plug, ""
	}
	for _, name := range withinDevice {
		if value := of(name); value != "" {
			l.within = append(l.within, name+"="+value)
		}
	}
	if !l.asksForAddress && k.current["plug"] == "" { // for example fence_dummy: any parameter may matter
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if !password(name) {
				l.within = append(l.within, name+"="+texts[name])
			}
		}
	}
	return l
}

// isList reports whether the agent would read a plug as several.
func (k *knownAgent) isList(plug, separator string) bool {
	return slices.ContainsFunc([]string{",", k.parameters["plug_separator"].Default, separator},
		func(separator string) bool { return separator != "" && strings.Contains(plug, separator) })
}
