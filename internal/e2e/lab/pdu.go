package lab

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const snmpdConfig = `agentAddress udp:127.0.0.1:%d
rwcommunity %s 127.0.0.1
sysobjectid %s
pass_persist %s %s
`

// model is a kind of power distribution unit.
type model struct {
	agent, system string // system is what tells models apart
	tree          oid    // all that is about outlets
	numbers       oid    // of the outlets, that are there
	name          func(outlet int) (kind, value string)
	states        []oid // each can be read, and the last can also be written
	on, off       string
	first         int // index of outlet 1
}

var apc = model{
	agent: "fence_apc_snmp", system: ".1.3.6.1.4.1.318.1.3.4.5",
	tree:    parseOID(".1.3.6.1.4.1.318.1.1.12.3"),
	numbers: parseOID(".1.3.6.1.4.1.318.1.1.12.3.5.1.1.2"),
	name:    func(outlet int) (string, string) { return "string", fmt.Sprintf("Outlet %d", outlet) },
	states:  []oid{parseOID(".1.3.6.1.4.1.318.1.1.12.3.5.1.1.4"), parseOID(".1.3.6.1.4.1.318.1.1.12.3.3.1.1.4")},
	on:      "1", off: "2", first: 1,
}

var eaton = model{
	agent: "fence_eaton_snmp", system: ".1.3.6.1.4.1.534.6.6.6",
	tree:    parseOID(".1.3.6.1.4.1.534.6.6.6.1.2.2.1"),
	numbers: parseOID(".1.3.6.1.4.1.534.6.6.6.1.2.2.1.1"),
	name:    func(outlet int) (string, string) { return "integer", strconv.Itoa(outlet - 1) },
	states:  []oid{parseOID(".1.3.6.1.4.1.534.6.6.6.1.2.2.1.3")},
	on:      "1", off: "0", first: 0,
}

// APC starts a switched rack PDU of APC. Its outlets are plugs "1", "2" and so on.
func (l *Lab) APC(outlets ...*Plug) (*Device, error) { return l.pdu("apc", apc, outlets) }

// Eaton starts a managed ePDU of Eaton. Its outlets are plugs "1", "2" and so on.
func (l *Lab) Eaton(outlets ...*Plug) (*Device, error) { return l.pdu("eaton", eaton, outlets) }

func (l *Lab) pdu(kind string, m model, outlets []*Plug) (*Device, error) {
	name := l.name(kind)
	dir, err := l.subdir(name)
	if err != nil {
		return nil, fmt.Errorf("lab: start %s: %w", name, err)
	}
	l.back.handle(name, func(_ []string, in *bufio.Reader, out io.Writer) { unit{m, outlets}.serve(in, out) })
	back, env, err := l.back.command(name)
	if err != nil {
		return nil, err
	}
	port, process, err := l.onFreePort(name, func(port int) (e2e.Command, error) {
		config := filepath.Join(dir, "snmpd.conf")
		text := fmt.Appendf(nil, snmpdConfig, port, Password, m.system, m.tree, back)
		return e2e.Command{
			Path: "snmpd", Args: []string{"-f", "-C", "-c", config, "-Lo"},
			Env: slices.Concat(env, []string{"MIBS=", "SNMP_PERSISTENT_DIR=" + dir}), // no files outside of dir
		}, os.WriteFile(config, text, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return &Device{
		Agent: m.agent,
		Parameters: map[string]string{
			"ip": "127.0.0.1", "ipport": strconv.Itoa(port), "community": Password, "snmp_version": "1",
			"power_wait": "0",
		},
		freeze: process.Pause, thaw: process.Resume,
	}, nil
}

// unit is what answers snmpd about the outlets.
type unit struct {
	model
	outlets []*Plug
}

// serve speaks the protocol of pass_persist: a command, and its arguments, are one line each.
func (u unit) serve(in *bufio.Reader, out io.Writer) {
	line := func() (string, bool) {
		text, err := in.ReadString('\n')
		return strings.TrimSpace(text), err == nil
	}
	for command, ok := line(); ok; command, ok = line() {
		switch strings.ToLower(command) {
		case "ping":
			fmt.Fprintln(out, "PONG")
		case "get":
			at, _ := line()
			u.answer(out, parseOID(at))
		case "getnext":
			after, _ := line()
			u.answer(out, u.next(parseOID(after)))
		case "set":
			at, _ := line()
			value, _ := line()
			fmt.Fprintln(out, u.set(parseOID(at), value))
		}
	}
}

// answer writes the variable at an OID.
func (u unit) answer(out io.Writer, at oid) {
	for outlet, plug := range u.outlets {
		if at.is(u.numbers, u.first+outlet) {
			kind, value := u.name(outlet + 1)
			fmt.Fprintf(out, "%s\n%s\n%s\n", at, kind, value)
			return
		}
		for _, state := range u.states {
			if at.is(state, u.first+outlet) {
				value := u.off
				if plug.read() {
					value = u.on
				}
				fmt.Fprintf(out, "%s\ninteger\n%s\n", at, value)
				return
			}
		}
	}
	fmt.Fprintln(out, "NONE")
}

// set switches an outlet, told by "integer N".
func (u unit) set(at oid, value string) string {
	_, number, _ := strings.Cut(value, " ")
	for outlet, plug := range u.outlets {
		if at.is(u.states[len(u.states)-1], u.first+outlet) && (number == u.on || number == u.off) {
			plug.command(number == u.on)
			return "DONE"
		}
	}
	return "not-writable"
}

// next returns the first OID after one, nil if there is none.
func (u unit) next(after oid) oid {
	all := map[string]oid{}
	for outlet := range u.outlets {
		for _, column := range append([]oid{u.numbers}, u.states...) {
			at := append(slices.Clone(column), u.first+outlet)
			all[at.String()] = at
		}
	}
	for _, at := range slices.SortedFunc(maps.Values(all), slices.Compare[oid]) {
		if slices.Compare(at, after) > 0 {
			return at
		}
	}
	return nil
}

// oid is the place of a variable in SNMP's tree.
type oid []int

func parseOID(text string) oid {
	var o oid
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "."), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		o = append(o, n)
	}
	return o
}

// is says whether o is a row of a column.
func (o oid) is(column oid, row int) bool {
	return len(o) == len(column)+1 && slices.Equal(o[:len(column)], column) && o[len(column)] == row
}

func (o oid) String() string {
	var text strings.Builder
	for _, n := range o {
		fmt.Fprintf(&text, ".%d", n)
	}
	return text.String()
}
