package lab

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Virsh starts a host of libvirt with one virtual machine, which is plug "vm". Its agent logs in by ssh and
// runs virsh there: both are stand-ins, so that the agent has to be started from the directory of the device.
// It cannot be frozen.
func (l *Lab) Virsh(machine *Plug) (*Device, error) {
	name := l.name("virsh")
	dir, err := l.subdir(name)
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	l.back.handle(name, func(arguments []string, _ *bufio.Reader, out io.Writer) {
		switch command := strings.Join(arguments, " "); command {
		case "domstate vm":
			switch {
			case machine.Suspended():
				fmt.Fprintln(out, "pmsuspended")
			case machine.read():
				fmt.Fprintln(out, "running")
			default:
				fmt.Fprintln(out, "shut off")
			}
		case "destroy vm", "start vm":
			machine.command(command == "start vm")
		default:
			fmt.Fprintln(out, "error: failed to get domain")
		}
	})
	line, env, err := l.back.command(name)
	if err != nil {
		return nil, err
	}
	for file, script := range map[string]string{
		"virsh": "export " + strings.Join(env, " ") + "\nexec " + line + ` "$@"`,
		"ssh": "printf password:\nread -r _\nPATH='" + dir + "':$PATH\nexport PATH PS1='[EXPECT]# '\n" +
			"exec bash --noprofile --norc -i",
		"fence_virsh": "{ cat; echo 'ssh_path=" + dir + "/ssh'; } | /usr/sbin/fence_virsh",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			return nil, fmt.Errorf("lab: start %s: %w", name, err)
		}
	}
	return &Device{
		Agent: "fence_virsh", Directory: dir,
		Parameters: map[string]string{
			"ip": "127.0.0.1", "username": Username, "password": Password, "power_wait": "0", "login_timeout": "20",
			"shell_timeout": "20",
		},
	}, nil
}
