//go:build !linux

package supervisor

func start() *Supervisor { return &Supervisor{why: "this system is not Linux"} }
