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

// telnet is a device that is spoken to by telnet: a login, and then commands.
type telnet struct {
	banner, password, welcome, prompt, quit string
	// execute returns what the device says to a command.
	execute func(command, argument string) string
	// single has the device close all sessions but one.
	single bool

	entrance gate
	listener net.Listener
	serving  sync.WaitGroup

	mu       sync.Mutex
	sessions map[net.Conn]bool
	logins   Logins
}

// Logins counts those that a device has got.
type Logins struct{ Served, Refused int }

// telnet starts a device. It has no agent yet.
func (l *Lab) telnet(kind string, t *telnet) (*Device, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", l.name(kind), err)
	}
	t.listener, t.sessions = listener, map[net.Conn]bool{}
	t.serving.Go(t.accept)
	l.atEnd(t.close)
	return &Device{
		Parameters: map[string]string{
			"ip": "127.0.0.1", "ipport": strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), "username": Username,
			"password": Password, "power_wait": "0", "login_timeout": "20", "shell_timeout": "20",
		},
		freeze: t.entrance.freeze, thaw: t.entrance.thaw,
	}, nil
}

func (t *telnet) accept() {
	for {
		session, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		t.mu.Lock()
		refused := t.single && len(t.sessions) > 0
		if refused {
			t.logins.Refused++
		} else {
			t.sessions[session] = true
			t.logins.Served++
		}
		t.mu.Unlock()
		if refused {
			session.Close()
			continue
		}
		t.serving.Go(func() {
			t.serve(session)
			t.mu.Lock()
			delete(t.sessions, session) // before its client can see that it has ended
			t.mu.Unlock()
			session.Close()
		})
	}
}

func (t *telnet) close() {
	_ = t.entrance.thaw()
	t.listener.Close()
	t.mu.Lock()
	for session := range t.sessions {
		session.Close()
	}
	t.mu.Unlock()
	t.serving.Wait()
}

// counted returns the logins until now.
func (t *telnet) counted() Logins {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logins
}

// serve is one session.
func (t *telnet) serve(session net.Conn) {
	in := bufio.NewReader(session)
	say := func(text string) {
		t.entrance.pass()
		fmt.Fprint(session, text)
	}
	hear := func() (string, bool) {
		line, err := in.ReadBytes('\n')
		return plainText(line), err == nil
	}
	for {
		say(t.banner)
		username, ok := hear()
		if !ok {
			return
		}
		say(t.password)
		password, ok := hear()
		if !ok {
			return
		}
		if username == Username && password == Password {
			break
		}
		say("\r\nLogin incorrect\r\n")
	}
	say(t.welcome + t.prompt)
	for {
		line, ok := hear()
		command, argument, _ := strings.Cut(line, " ")
		if !ok || command == t.quit {
			return
		}
		say(t.execute(command, argument) + t.prompt)
	}
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
