package nodeconfig

import (
	"maps"
	"slices"
	"strings"
)

// template is the common part of the methods for one device.
type template struct {
	at      place
	entries []Entry
}

// template returns nil after an error.
func (s *subject) template(at place, name string) *template {
	if !s.noPlaceholder(at, name) {
		return nil
	}
	data, exists := s.ConfigMaps[name]
	if !exists || !strings.HasPrefix(name, templatePrefix) {
		var known []string
		for object := range s.ConfigMaps {
			if strings.HasPrefix(object, templatePrefix) {
				known = append(known, object)
			}
		}
		s.problem(at, nearest("template must be a ConfigMap "+templatePrefix+"<device> of the namespace", name, known),
			name)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != templateKey {
			s.problem(place{object: name, key: key}, "data key must be "+templateKey, key)
		}
	}
	if _, exists := data[templateKey]; !exists {
		s.problem(place{object: name}, "data key "+templateKey+" is required", "")
		return nil
	}
	text := s.text(name, templateKey)
	s.take(text.found)
	return &template{place{object: name, key: templateKey}, text.entries}
}

// readTemplate adds the settings of a template to values.
func (s *subject) readTemplate(
	t template, d *definition, agent *knownAgent, values map[string]setting, traits *traits,
) {
	var parameters []Entry
	spelt := false
	for _, e := range t.entries {
		current, at := agent.current[e.Key], t.at.of(e)
		switch {
		case e.Key == "must_success" || e.Key == "must_sucess":
			if spelt {
				s.problem(at, "key must be given once, by one of its spellings", e.Name)
			}
			spelt = true
			d.mustSucceed = s.choice(at, e, "yes", "no") != "no"
		case slices.Contains([]string{"action", "template", "agent", "plug"}, e.Key),
			current != "" && current == agent.current["plug"]:
			s.problem(at, "key belongs into methods, not into templates", e.Name)
		default:
			parameters = append(parameters, e)
		}
	}
	s.readParameters(t.at, parameters, append([]string{"agent_name", "name"}, traitKeys...), agent, values)
	s.readTraits(t.at, t.entries, agent, traits)
}
