package lab

import (
	"fmt"
	"strconv"
)

// APCTelnet starts a switched rack PDU of APC that is spoken to by telnet, and takes one session at a time: it
// closes others. Its outlets are plugs "1", "2" and so on. The function counts the logins.
func (l *Lab) APCTelnet(outlets ...*Plug) (*Device, func() Logins, error) {
	t := &telnet{
		banner: "\r\nUser Name : ", password: "Password  : ", prompt: "\r\napc>", quit: "4", single: true,
		welcome: "\r\nNetwork Management Card AOS v6.4.0\r\n",
		execute: func(command, argument string) string {
			if command == "olStatus" {
				table := "\r\nE000: Success"
				for i, outlet := range outlets {
					state := "Off"
					if outlet.read() {
						state = "On"
					}
					table += fmt.Sprintf("\r\n %d: Outlet %d: %s", i+1, i+1, state)
				}
				return table + "\r\n"
			}
			number, err := strconv.Atoi(argument)
			if err != nil || number < 1 || number > len(outlets) || command != "olOn" && command != "olOff" {
				return "\r\nE102: Parameter Error\r\n"
			}
			outlets[number-1].command(command == "olOn")
			return "\r\nE000: Success\r\n"
		},
	}
	d, err := l.telnet("apc-telnet", t)
	if err != nil {
		return nil, nil, err
	}
	d.Agent = "fence_apc"
	return d, t.counted, nil
}
