package nodeconfig

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// assemble makes a device from values. It returns nil after an error that leaves the device
// undetermined.
func (s *subject) assemble(d *definition, agent *knownAgent, values map[string]setting) *Device {
	device := &Device{Agent: agent.Name}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if v.secret != nil {
			device.Arguments = append(device.Arguments, Argument{name, Value{secret: *v.secret}})
			continue
		}
		if text, ok := s.expand(name, v, agent); ok {
			texts[name] = text
			device.Arguments = append(device.Arguments, Argument{name, Value{text: &text, hidden: password(name)}})
		}
	}
	hasPlug := s.checkRequired(d, agent, values)
	if !s.identify(d, agent, values, texts, device) || !hasPlug {
		return nil
	}
	return device
}

// identify sets what distinguishes the device from others. It returns false if nothing does.
func (s *subject) identify(
	d *definition,
	agent *knownAgent,
	values map[string]setting,
	texts map[string]string,
	device *Device,
) bool {
	if plug := texts[agent.current["plug"]]; agent.isList(plug, texts["plug_separator"]) {
		s.problem(values[agent.current["plug"]].at,
			"plug must be one: devices were seen to switch the first of a list only", plug)
	}
	if !s.checkPortAsIP(agent, values, texts) {
		return false
	}
	written := map[string]string{}
	for name, v := range values {
		written[name] = v.value
		if _, usable := texts[name]; !usable && agent.identifies(name) {
			return false // already reported
		}
	}
	at := agent.locate(texts)
	if !at.known() {
		s.problem(d.at, "method must say which device is meant: the agent's defaults are never used for "+
			"that", "")
		return false
	}
	if general := agent.locate(written); s.general && !general.differs() {
		s.problem(d.at, "address or plug must have a placeholder such as "+nodeNamePlaceholder+
			" in a configuration of several nodes", strings.TrimSpace(at.address+" "+at.plug))
	}
	device.Key = url.PathEscape(agent.Name) + "/" + at.String()
	device.claimed = agent.locate(written).claimed()
	device.Queue = device.Key
	if at.address != "" {
		device.Queue = agent.Name + " " + location{address: at.address, port: at.port}.String()
	}
	if at.address == "" { // the agent knows its plugs
		device.identity = device.Key
		return true
	}
	// Two protocols do not share a port, so another agent on it is for the same device.
	if at.port == "" {
		at.port = agent.parameters[agent.current["ipport"]].Default
	}
	device.identity = at.String()
	return true
}

// checkPortAsIP checks agents without plugs. They ignore their parameter plug or use it as the
// address, whatever port_as_ip is.
func (s *subject) checkPortAsIP(agent *knownAgent, values map[string]setting, texts map[string]string) bool {
	portAsIP, plug := agent.current["port_as_ip"], agent.current["plug"]
	_, hasPlug := values[plug]
	given, isGiven := values[portAsIP]
	switch {
	case portAsIP == "":
	case isGiven && !truth(texts[portAsIP]):
		s.problem(given.at, portAsIP+" must be 1 or be left out: agents take 0 for 1", texts[portAsIP])
		return false
	case hasPlug && !isGiven:
		s.problem(values[plug].at,
			plug+" must be left out without "+portAsIP+"=1: "+agent.Name+" has no plugs, and ignores it", texts[plug])
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

// differs reports whether it has a placeholder, so that it differs between nodes.
func (l location) differs() bool {
	return strings.Contains(l.address+l.port+l.plug+strings.Join(l.within, ""), "{{")
}

// claimed reports whether it has something that the node states about itself. The node's name does
// not count, because names are unique.
func (l location) claimed() bool {
	all := l.address + l.port + l.plug + strings.Join(l.within, "")
	return strings.Contains(all, providerIDPlaceholder) || strings.Contains(all, instanceIDPlaceholder)
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
	parts := []string{url.PathEscape(address), url.PathEscape(l.plug)}
	for _, part := range l.within {
		parts = append(parts, url.PathEscape(part))
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
	return slices.ContainsFunc(
		[]string{",", k.parameters["plug_separator"].Default, separator},
		func(separator string) bool {
			return separator != "" && strings.Contains(plug, separator)
		},
	)
}
