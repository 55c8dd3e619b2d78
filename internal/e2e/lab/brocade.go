package lab

import (
	"fmt"
	"strconv"
)

// Brocade starts a Fibre Channel switch of Brocade that is spoken to by telnet. Its ports are plugs
// "0", "1" and so on; one that is off has no storage behind it.
func (l *Lab) Brocade(ports ...*Plug) (*Device, error) {
	show := func() string {
		table := "Index Port Address Media Speed State     Proto\r\n=================================================="
		for i, port := range ports {
			state := "No_Light    FC  Disabled (Persistent)"
			if port.read() {
				state = "Online      FC  F-Port"
			}
			table += fmt.Sprintf("\r\n  %d   %d   01%02x00   id    N8   %s", i, i, i, state)
		}
		return table
	}
	d, err := l.telnet("brocade", &telnet{
		banner: "\r\nFabric OS\r\nsw login: ", password: "Password: ", prompt: "\r\nsw:admin> ", quit: "exit",
		execute: func(command, argument string) string {
			switch command {
			case "switchshow":
				return show()
			case "portCfgPersistentEnable", "portCfgPersistentDisable":
				port, err := strconv.Atoi(argument)
				if err != nil || port < 0 || port >= len(ports) {
					return "\r\nport out of range"
				}
				ports[port].command(command == "portCfgPersistentEnable")
			}
			return ""
		},
	})
	if err != nil {
		return nil, err
	}
	d.Agent = "fence_brocade"
	return d, nil
}
