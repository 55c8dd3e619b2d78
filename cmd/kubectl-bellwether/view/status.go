package view

// Status is everything in one screen.
type Status struct {
	Elections []Election `json:"elections"`
	Rings     []Summary  `json:"rings"`
	Services  []Service  `json:"services"`
	Fences    []Fence    `json:"fences"`
}
