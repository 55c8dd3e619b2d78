package realnode

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/e2e/debian"
)

// bootEnv has a boot as JSON: this process is the first one of a node.
const bootEnv = "BELLWETHER_REALNODE_BOOT"

// boot is what the first process of a node has to know.
type boot struct {
	Name    string
	Dir     string // the node's disk
	Index   int
	Others  []int // indices of the other nodes
	Cgroups cgroups
	Images  []string // archives; the last one has pauseImage
	Program string   // kubelet and kube-proxy
}

// Daemons of a node, by the names that requests and log files have for them.
const (
	containerd = "containerd"
	kubelet    = "kubelet"
	proxy      = "kube-proxy"
)

// request is one to the first process of a node: to end a daemon, or to start it.
type request struct {
	daemon string
	wanted bool
	done   chan<- struct{}
}

// restartDelay is how long the first process waits until it starts a daemon again that has ended.
const restartDelay = 200 * time.Millisecond

// run is the life of a node's first process. It returns only errors.
func (b boot) run() error {
	// Processes are in the control group namespace of the thread that starts them.
	runtime.LockOSThread()
	if err := b.Cgroups.join(); err != nil {
		return fmt.Errorf("control groups: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("control groups: %w", err)
	}
	if err := unix.Sethostname([]byte(b.Name)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := b.mount(); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := b.connect(); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	listener, err := net.Listen("unix", filepath.Join(b.Dir, controlSocket))
	if err != nil {
		return err
	}
	daemons := map[string]*daemon{
		containerd: {arguments: []string{containerd, "--config", b.file("containerd.toml")}},
		kubelet: {arguments: []string{
			b.Program, kubelet, "--config", b.file("kubelet.yaml"), "--kubeconfig", b.file("kubelet.conf"),
			"--hostname-override", b.Name, "--node-ip", address(b.Index), "--v=2",
		}},
		proxy: {arguments: []string{b.Program, proxy, "--config", b.file("kube-proxy.yaml")}},
	}
	if err := daemons[containerd].start(b.file(containerd + ".log")); err != nil {
		return err
	}
	if err := b.importImages(); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	requests, ended := make(chan request), make(chan int)
	go reap(ended)
	go serve(listener, requests)
	daemons[kubelet].wanted, daemons[proxy].wanted = true, true
	for restart := time.After(0); ; {
		select {
		case <-restart:
			for name, d := range daemons {
				if d.wanted && d.pid == 0 {
					if err := d.start(b.file(name + ".log")); err != nil {
						return err
					}
				}
			}
		case pid := <-ended:
			for _, d := range daemons {
				if d.pid == pid {
					d.pid = 0
					if d.stopped != nil {
						close(d.stopped)
						d.stopped = nil
					}
					restart = time.After(restartDelay)
				}
			}
		case r := <-requests:
			d := daemons[r.daemon]
			d.wanted = r.wanted
			switch {
			case d.pid != 0 && !r.wanted:
				d.stopped = r.done
				_ = syscall.Kill(d.pid, syscall.SIGKILL) // it may have ended: that is reported soon
			default:
				close(r.done)
				restart = time.After(0)
			}
		}
	}
}

func (b boot) file(name string) string { return filepath.Join(b.Dir, name) }

// mount gives the node its own view: processes, control groups, and a disk.
func (b boot) mount() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	_ = unix.Unmount("/sys", unix.MNT_DETACH) // it shows the network of another namespace
	mounts := [][4]string{
		{"proc", "/proc", "proc", ""},
		{"sysfs", "/sys", "sysfs", ""},
		{"tmpfs", cgroupRoot, "tmpfs", "mode=755"},
		{"tmpfs", "/run", "tmpfs", "mode=755"},
	}
	for _, group := range b.Cgroups {
		hierarchy := strings.Split(strings.TrimPrefix(group, cgroupRoot+"/"), "/")[0]
		options := hierarchy
		if hierarchy == "systemd" {
			options = "none,name=systemd"
		}
		mounts = append(mounts, [4]string{"cgroup", filepath.Join(cgroupRoot, hierarchy), "cgroup", options})
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[2], 0, m[3]); err != nil {
			return fmt.Errorf("%s: %w", m[1], err)
		}
	}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		if err := unix.Mount(b.file(filepath.Base(dir)), dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := b.identify(); err != nil {
		return err
	}
	return unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "") // kubelets mount for their containers
}

// identify gives the node identifiers of its own: nodes that share those of this machine count as one.
func (b boot) identify() error {
	sum := sha256.Sum256([]byte(b.Name))
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	for path, id := range map[string]string{
		"/etc/machine-id": fmt.Sprintf("%x", sum[:16]), "/sys/class/dmi/id/product_uuid": uuid,
	} {
		if _, err := os.Stat(path); err != nil {
			continue // this machine has none either
		}
		own := b.file(filepath.Base(path))
		if err := os.WriteFile(own, []byte(id+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// connect configures the network card as soon as its cable is plugged in.
func (b boot) connect() error {
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if _, err := net.InterfaceByName(card); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("no network card")
		}
	}
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", address(b.Index) + "/24", "dev", card},
		{"link", "set", card, "up"},
		{"route", "add", "default", "via", gateway},
	}
	for _, other := range b.Others {
		commands = append(commands, []string{"route", "add", podsOf(other), "via", address(other)})
	}
	for _, arguments := range commands {
		if err := ip(arguments...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// importImages gives containerd the images, as soon as it answers. After a boot from a disk that has
// them it does nothing.
func (b boot) importImages() error {
	deadline := time.Now().Add(time.Minute)
	for {
		output, err := command("ctr", "--namespace", "k8s.io", "images", "list", "--quiet").CombinedOutput()
		if err == nil {
			if strings.Contains(string(output), pauseImage) {
				return nil
			}
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %s", err, output)
		}
		<-time.After(50 * time.Millisecond)
	}
	for _, archive := range b.Images {
		output, err := command("ctr", "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
	}
	return nil
}

// daemon is a process that the first process of a node starts again when it ends.
type daemon struct {
	arguments []string
	wanted    bool
	pid       int
	stopped   chan<- struct{} // closed when it has ended
}

func (d *daemon) start(log string) error {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	path, err := debian.Find(d.arguments[0])
	if err != nil {
		return err
	}
	process, err := os.StartProcess(path, d.arguments, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{nil, output, output},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	d.pid, d.wanted = process.Pid, true
	return process.Release() // reap waits for it
}

// reap waits for all children, those too that have lost their parents.
func reap(ended chan<- int) {
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil {
			<-time.After(restartDelay) // there are none
			continue
		}
		ended <- pid
	}
}

// serve takes one request from each connection: "<daemon> on" or "<daemon> off", a line. It answers
// with a line when it is done.
func serve(listener net.Listener, requests chan<- request) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(connection).ReadString('\n')
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains([]string{kubelet, proxy, containerd}, name) {
			done := make(chan struct{})
			requests <- request{name, state == "on", done}
			<-done
			fmt.Fprintln(connection, "done")
		}
		connection.Close()
	}
}

func (b boot) encode() (string, error) {
	content, err := json.Marshal(b)
	return bootEnv + "=" + string(content), err
}

// command is a program of Debian's.
func command(name string, arguments ...string) *exec.Cmd {
	path, err := debian.Find(name)
	if err != nil {
		path = name // the error comes when it is executed
	}
	return exec.Command(path, arguments...)
}

func ip(arguments ...string) error {
	if output, err := command("ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return nil
}
