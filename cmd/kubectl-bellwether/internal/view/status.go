package view

// Status is everything in one screen.
type Status struct {
	Elections []Election `json:"elections"`
	Rings     []Summary  `json:"rings"`
	Services  []Service  `json:"services"`
	Fences    []Fence    `json:"fences"`
	// Flows are those of the namespaces with elections or rings, empty if FlowSchemas cannot be listed.
	Flows []Flow `json:"flows,omitempty"`
}
