package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

const backEndEnv = "BELLWETHER_LAB_BACKEND"

// Main has to be called first in the TestMain of tests that use a lab. ipmi_sim and snmpd are made
// to start this very program to ask about plugs; then it does that, and does not return.
func Main() {
	if socket, ok := os.LookupEnv(backEndEnv); ok {
		if err := ask(socket, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// ask hands its arguments, and then its standard input, on to the process that has the plugs, and
// returns what that says.
func ask(socket string, arguments []string) error {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(connection, strings.Join(arguments, " ")+"\n"); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(connection, os.Stdin)
		_ = connection.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, connection)
	return err
}

// backEnd serves what ask asks for.
type backEnd struct {
	socket   string
	listener net.Listener
	serving  sync.WaitGroup

	mu          sync.Mutex
	handlers    map[string]handler
	connections map[net.Conn]bool
}

// handler answers one who was started with the arguments.
type handler func(arguments []string, in *bufio.Reader, out io.Writer)

func newBackEnd(socket string) (*backEnd, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	b := &backEnd{socket: socket, listener: listener, handlers: map[string]handler{}, connections: map[net.Conn]bool{}}
	b.serving.Go(b.accept)
	return b, nil
}

func (b *backEnd) accept() {
	for {
		connection, err := b.listener.Accept()
		if err != nil {
			return // closed
		}
		b.mu.Lock()
		b.connections[connection] = true
		b.mu.Unlock()
		b.serving.Go(func() { b.serve(connection) })
	}
}

func (b *backEnd) serve(connection net.Conn) {
	defer func() {
		b.mu.Lock()
		delete(b.connections, connection)
		b.mu.Unlock()
		connection.Close()
	}()
	in := bufio.NewReader(connection)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	arguments := strings.Fields(line)
	if len(arguments) == 0 {
		return
	}
	b.mu.Lock()
	handle := b.handlers[arguments[0]]
	b.mu.Unlock()
	if handle != nil {
		handle(arguments[1:], in, connection)
	}
}

// handle makes h answer those whose first argument is name.
func (b *backEnd) handle(name string, h handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handlers[name] = h
}

// command is what a device has to execute to speak to the handler of a name, and what it needs in
// its environment for it.
func (b *backEnd) command(name string) (line string, env []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("lab: %w", err)
	}
	if strings.ContainsAny(self, " \"'\\") {
		return "", nil, errors.New("lab: the tests' directory must have a simple name: " + self)
	}
	return self + " " + name, []string{
		backEndEnv + "=" + b.socket,
		"GORACE=atexit_sleep_ms=0", // or the race detector delays every answer by a second
	}, nil
}

func (b *backEnd) close() {
	b.listener.Close()
	b.mu.Lock()
	for connection := range b.connections {
		connection.Close()
	}
	b.mu.Unlock()
	b.serving.Wait()
}
