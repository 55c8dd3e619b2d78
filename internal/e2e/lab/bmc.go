package lab

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const lanConfig = `name "%[1]s"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %[2]d
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid %032[2]x
  endlan
  chassis_control "%[3]s"
  user 2 true "%[4]s" "%[5]s" admin 10 none md2 md5 straight
`

const emulatorCommands = `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
`

// BMC starts a board management controller that speaks IPMI over LAN and switches the chassis. It
// knows no plugs.
func (l *Lab) BMC(chassis *Plug) (*Device, error) {
	name := l.name("bmc")
	dir, err := l.subdir(name)
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	l.back.handle(name, func(arguments []string, _ *bufio.Reader, out io.Writer) { control(chassis, arguments, out) })
	command, env, err := l.back.command(name)
	if err != nil {
		return nil, err
	}
	port, process, err := l.onFreePort(name, func(port int) (e2e.Command, error) {
		config, emulator := filepath.Join(dir, "lan.conf"), filepath.Join(dir, "emulator")
		if err := os.WriteFile(config, fmt.Appendf(nil, lanConfig, name, port, command, Username, Password),
			0o600); err != nil {
			return e2e.Command{}, err
		}
		if err := os.WriteFile(emulator, []byte(emulatorCommands), 0o600); err != nil {
			return e2e.Command{}, err
		}
		return e2e.Command{
			Path: "ipmi_sim", Args: []string{"-c", config, "-f", emulator, "-s", dir, "-n"},
			Env: env,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return &Device{
		Agent: "fence_ipmilan",
		Parameters: map[string]string{
			"ip": "127.0.0.1", "ipport": strconv.Itoa(port), "username": Username, "password": Password,
			"lanplus": "1", "cipher": "3", "power_wait": "0",
			// Or ipmitool says again what a slow BMC has not answered yet: what reaches the device
			// is counted.
			"ipmitool_timeout": "60",
		},
		freeze: process.Pause, thaw: process.Resume, powerOff: process.Kill, powerOn: process.Restart,
	}, nil
}

// control answers ipmi_sim, which asks "get KEY..." or says "set KEY VALUE [KEY VALUE...]".
func control(chassis *Plug, arguments []string, out io.Writer) {
	if len(arguments) == 0 {
		return
	}
	switch verb, rest := arguments[0], arguments[1:]; verb {
	case "get":
		for _, key := range rest {
			value := 0
			if key == "power" && chassis.read() {
				value = 1
			}
			fmt.Fprintf(out, "%s:%d\n", key, value)
		}
	case "set":
		for ; len(rest) >= 2; rest = rest[2:] {
			switch rest[0] + " " + rest[1] {
			case "power 0", "shutdown 1":
				chassis.command(false)
			case "power 1":
				chassis.command(true)
			case "reset 1":
				chassis.command(false)
				chassis.command(true)
			}
		}
	}
}
