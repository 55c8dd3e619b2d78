package fencing

import (
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// silentAgents has the agents that took longer than silentAfter to fail. Only the background asks
// them again.
type silentAgents struct {
	mu   sync.Mutex
	errs map[string]error // by name
}

// silentAfter is how long an agent that fails may take.
const silentAfter = time.Second

// ask asks for the metadata of an agent. With again, it also asks one that did not answer.
func (s *silentAgents) ask(name string, again bool, c clock.Clock, metadata func() (agent.Metadata, error),
) (agent.Metadata, error) {
	s.mu.Lock()
	err := s.errs[name]
	s.mu.Unlock()
	if err != nil && !again {
		return agent.Metadata{}, err
	}
	began := c.Now()
	m, err := metadata()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.errs, name)
	if err != nil && c.Now().SinceAtMost(began) >= silentAfter {
		if s.errs == nil {
			s.errs = map[string]error{}
		}
		s.errs[name] = err
	}
	return m, err
}

func (s *silentAgents) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}
