package agent

// Action is a command to a device.
type Action string

// Commands to devices. There is no reboot, because a device is proved off before it is switched on.
const (
	ActionOff Action = "off"
	ActionOn  Action = "on"
)

// Power is the state of a plug as its device reports it.
type Power string

// States of a plug.
const (
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PowerUnknown Power = "unknown"
)
