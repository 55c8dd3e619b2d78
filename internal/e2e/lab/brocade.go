package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Brocade starts a Fibre Channel switch of Brocade that is spoken to by telnet. Its ports are plugs
// "0", "1" and so on; one that is off has no storage behind it.
func (l *Lab) Brocade(ports ...*Plug) (*Device, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", l.name("brocade"), err)
	}
	s := &fabricSwitch{ports: ports, listener: listener, sessions: map[net.Conn]bool{}}
	s.serving.Go(s.accept)
	l.atEnd(s.close)
	return &Device{
		Agent: "fence_brocade",
		Parameters: map[string]string{
			"ip": "127.0.0.1", "ipport": strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), "username": Username,
			"password":   Password,
			"power_wait": "0", "login_timeout": "20", "shell_timeout": "20",
		},
		freeze: s.entrance.freeze, thaw: s.entrance.thaw,
	}, nil
}

type fabricSwitch struct {
	ports    []*Plug
	entrance gate
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	sessions map[net.Conn]bool
}

func (s *fabricSwitch) accept() {
	for {
		session, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		s.sessions[session] = true
		s.mu.Unlock()
		s.serving.Go(func() {
			s.serve(session)
			session.Close()
			s.mu.Lock()
			delete(s.sessions, session)
			s.mu.Unlock()
		})
	}
}

func (s *fabricSwitch) close() {
	_ = s.entrance.thaw()
	s.listener.Close()
	s.mu.Lock()
	for session := range s.sessions {
		session.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// serve is one session: a login, and then commands.
func (s *fabricSwitch) serve(session net.Conn) {
	const prompt = "\r\nsw:admin> "
	in := bufio.NewReader(session)
	say := func(text string) {
		s.entrance.pass()
		fmt.Fprint(session, text)
	}
	hear := func() (string, bool) {
		line, err := in.ReadBytes('\n')
		return plainText(line), err == nil
	}
	for {
		say("\r\nFabric OS\r\nsw login: ")
		username, ok := hear()
		if !ok {
			return
		}
		say("Password: ")
		password, ok := hear()
		if !ok {
			return
		}
		if username == Username && password == Password {
			break
		}
		say("\r\nLogin incorrect\r\n")
	}
	say(prompt)
	for {
		line, ok := hear()
		command, argument, _ := strings.Cut(line, " ")
		switch {
		case !ok || command == "exit":
			return
		case command == "switchshow":
			say(s.show())
		case command == "portCfgPersistentEnable" || command == "portCfgPersistentDisable":
			if port, err := strconv.Atoi(argument); err == nil && port >= 0 && port < len(s.ports) {
				s.ports[port].command(command == "portCfgPersistentEnable")
			} else {
				say("\r\nport out of range")
			}
		}
		say(prompt)
	}
}

func (s *fabricSwitch) show() string {
	table := "Index Port Address Media Speed State     Proto\r\n=================================================="
	for i, port := range s.ports {
		state := "No_Light    FC  Disabled (Persistent)"
		if port.read() {
			state = "Online      FC  F-Port"
		}
		table += fmt.Sprintf("\r\n  %d   %d   01%02x00   id    N8   %s", i, i, i, state)
	}
	return table
}

// plainText is a line without what telnet clients negotiate in it: three bytes each that begin with
// 255.
func plainText(line []byte) string {
	for {
		at := bytes.IndexByte(line, 255)
		if at < 0 {
			return strings.Trim(string(line), "\r\n\x00 ")
		}
		line = append(line[:at:at], line[min(at+3, len(line)):]...)
	}
}
