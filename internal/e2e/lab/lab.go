package lab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// Credentials that all devices take. SNMP has but the password, as its community.
const (
	Username = "fencer"
	Password = "s3cret-of-the-lab"
)

// Lab is the devices of a test. Safe for concurrent use.
type Lab struct {
	dir     string
	group   *e2e.Group
	back    *backEnd
	closing sync.Once

	mu      sync.Mutex
	devices int
	closers []func()
}

// Device is one that agents speak to.
type Device struct {
	// Agent is the name of the fence agent for it.
	Agent string
	// Parameters are what that agent needs, but for the plug: address, port and credentials.
	Parameters map[string]string
	// Directory is that of the agent; empty: it is installed.
	Directory string
	// Certificate is the file of the one to trust, of devices that have one.
	Certificate string

	freeze, thaw      func() error
	powerOff, powerOn func() error // nil: it cannot be done
}

// New starts a lab that keeps its files in dir. The error names the packages that are missing.
// [Main] must be called by the TestMain of the tests that use it.
func New(dir string) (*Lab, error) {
	if _, back := os.LookupEnv(backEndEnv); back {
		return nil, errors.New("lab: TestMain does not call lab.Main: devices that ask about plugs would run all tests")
	}
	if err := Missing(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	group, err := e2e.NewGroup(dir)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	back, err := newBackEnd("@bellwether-lab-" + rand.Text()) // @: no file, and no limit to where dir may be
	if err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return &Lab{dir: dir, group: group, back: back}, nil
}

// Close ends all devices.
func (l *Lab) Close() error {
	var err error
	l.closing.Do(func() {
		err = l.group.Close()
		l.mu.Lock()
		closers := l.closers
		l.mu.Unlock()
		for _, closer := range closers {
			closer()
		}
		l.back.close()
	})
	return err
}

// Target is a plug of the device for a node, with parameters in place of the device's or besides
// them.
func (d *Device) Target(node, plug string, parameters map[string]string) agent.Target {
	all := maps.Clone(d.Parameters)
	if plug != "" {
		all["plug"] = plug
	}
	maps.Copy(all, parameters)
	return agent.Target{
		Node: node, Device: fmt.Sprintf("%s/%s/%s", d.Agent, d.Parameters["ip"], plug), Agent: d.Agent,
		Parameters: agent.NewParameters(all),
	}
}

// Template is the configuration of the device for a fencer, with parameters in place of the device's or besides
// them. The password is the key "password" of a Secret.
func (d *Device) Template(secret string, parameters map[string]string) string {
	all := maps.Clone(d.Parameters)
	maps.Copy(all, parameters)
	text := "agent_name=" + d.Agent + "\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == Password {
			text += name + ".secret=" + secret + "/password\n"
		} else {
			text += name + "=" + all[name] + "\n"
		}
	}
	return text
}

// Freeze makes the device hang, with its connections open, until Thaw.
func (d *Device) Freeze() error { return d.freeze() }

// Thaw lets the device go on.
func (d *Device) Thaw() error { return d.thaw() }

// Power takes the device's own power, or gives it back: without any it does not answer, and forgets
// what it was told.
func (d *Device) Power(on bool) error {
	switch {
	case d.powerOff == nil:
		return errors.New("lab: this device cannot lose its power")
	case on:
		return d.powerOn()
	}
	return d.powerOff()
}

// name returns a name that no other device of the lab has.
func (l *Lab) name(kind string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devices++
	return fmt.Sprintf("%s-%d", kind, l.devices)
}

// atEnd makes Close call closer.
func (l *Lab) atEnd(closer func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, closer)
}

// subdir returns an empty directory.
func (l *Lab) subdir(name string) (string, error) {
	dir := filepath.Join(l.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}
