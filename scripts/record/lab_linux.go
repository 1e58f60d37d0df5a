package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// The two ends of the cable. The addresses are from a block for documentation.
const (
	sendDev, sendMAC, sendIP = "send0", "02:00:00:00:00:01", "192.0.2.1"
	recvDev, recvMAC, recvIP = "recv0", "02:00:00:00:00:02", "192.0.2.2"
)

// missing is an error of the machine's: something that a recording needs is not there.
type missing struct{ error }

func (m missing) Unwrap() error { return m.error }

// lab is two network namespaces and a cable between them.
type lab struct{ send, recv *namespace }

// newLab makes a lab with the classes of s on the sending end. Close it.
func newLab(s *scenario) (*lab, error) {
	if err := needs(); err != nil {
		return nil, err
	}
	l := &lab{}
	var err error
	if l.send, err = newNamespace(); err != nil {
		return nil, err
	}
	if l.recv, err = newNamespace(); err != nil {
		l.close()
		return nil, err
	}
	if err := l.wire(s); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) close() {
	for _, n := range [...]*namespace{l.send, l.recv} {
		if n != nil {
			n.close()
		}
	}
}

func (l *lab) wire(s *scenario) error {
	// On the loopback first, so that an error is about the kernel and not the tree.
	if err := l.send.run("tc", "qdisc", "add", "dev", "lo", "root", "htb"); err != nil {
		return missing{fmt.Errorf("record: this kernel does not do htb (CONFIG_NET_SCH_HTB; as a module: modprobe sch_htb): %w", err)}
	}
	mtu := strconv.Itoa(s.mtu)
	if err := l.send.run("ip", "link", "add", sendDev, "address", sendMAC, "mtu", mtu,
		"type", "veth", "peer", "name", recvDev, "address", recvMAC, "mtu", mtu, "netns", l.recv.path); err != nil {
		return missing{fmt.Errorf("record: no veth pair (CONFIG_VETH; as a module: modprobe veth): %w", err)}
	}
	for _, end := range [...]struct {
		*namespace
		dev, ip, peerIP, peerMAC string
	}{{l.send, sendDev, sendIP, recvIP, recvMAC}, {l.recv, recvDev, recvIP, sendIP, sendMAC}} {
		for _, args := range [...]string{
			"link set " + end.dev + " addrgenmode none", // no packets of IPv6's own
			"address add " + end.ip + "/30 dev " + end.dev,
			"link set " + end.dev + " up",
			"neighbour replace " + end.peerIP + " lladdr " + end.peerMAC + " dev " + end.dev, // no ARP
		} {
			if err := end.run("ip", strings.Fields(args)...); err != nil {
				return fmt.Errorf("record: %w", err)
			}
		}
	}
	if _, err := l.send.feed(s.batch(sendDev), "tc", "-batch", "-"); err != nil {
		return fmt.Errorf("record: tc refused the tree: %w", err)
	}
	return nil
}

var (
	classExp = regexp.MustCompile(`^class htb (\S+) `)
	lentExp  = regexp.MustCompile(`^\s*lended: (\d+) borrowed: (\d+)`)
)

// packets asks what each class lent and borrowed.
func (l *lab) packets() (map[string]packets, error) {
	out, err := l.send.feed("", "tc", "-s", "class", "show", "dev", sendDev)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return parsePackets(out), nil
}

// parsePackets reads what tc -s class show prints: its JSON leaves these two out
// in versions that are still about.
func parsePackets(out string) map[string]packets {
	list := map[string]packets{}
	id := ""
	for line := range strings.Lines(out) {
		if m := classExp.FindStringSubmatch(line); m != nil {
			id = m[1]
		} else if m := lentExp.FindStringSubmatch(line); m != nil {
			lent, _ := strconv.ParseInt(m[1], 10, 64)
			borrowed, _ := strconv.ParseInt(m[2], 10, 64)
			list[id] = packets{lent, borrowed}
		}
	}
	return list
}

// kernelVersion returns the kernel's version without what its builder added.
func kernelVersion() (string, error) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return version, err
}

const hysteresis = "/sys/module/sch_htb/parameters/htb_hysteresis"

// needs returns everything that is missing before anything is tried.
func needs() error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("record: needs root, to make network namespaces: run it with sudo"))
	}
	for _, name := range [...]string{"ip", "tc"} {
		if _, err := program(name); err != nil {
			errs = append(errs, fmt.Errorf("record: needs %s: install iproute2 (Debian, Ubuntu: apt-get install iproute2; Fedora: dnf install iproute iproute-tc): %w", name, err))
		}
	}
	// The parameter is the whole machine's, so it is looked at and not set.
	if on, err := os.ReadFile(hysteresis); err == nil && strings.TrimSpace(string(on)) != "0" {
		errs = append(errs, fmt.Errorf("record: htb's hysteresis is on, which trades exactness for speed: echo 0 > %s", hysteresis))
	}
	if len(errs) > 0 {
		return missing{errors.Join(errs...)}
	}
	return nil
}

// program finds a program where system administrators' are, too.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range [...]string{"/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// namespace is a network namespace. It belongs to one thread and lasts as long as
// that and the sockets made in it.
type namespace struct {
	path string // in /proc
	jobs chan func()
}

// newNamespace makes a namespace with nothing in it. Close it.
func newNamespace() (*namespace, error) {
	n := &namespace{jobs: make(chan func())}
	made := make(chan error)
	onOwnThread(func() {
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		n.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), syscall.Gettid())
		made <- err
		if err != nil {
			return
		}
		for job := range n.jobs {
			job()
		}
	})
	if err := <-made; err != nil {
		return nil, missing{fmt.Errorf("record: no network namespace (CAP_SYS_ADMIN; a container needs --privileged): %w", err)}
	}
	return n, nil
}

func (n *namespace) close() { close(n.jobs) }

// onOwnThread calls f on a thread that ends with it, and the thread's namespace with
// that: so not on the process's first thread, which never ends.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // not unlocked: that ends the thread
		if syscall.Gettid() != os.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			f()
		}()
		<-started // elsewhere, as this thread is taken
	}()
}

// do calls f on the namespace's thread: sockets that it makes and programs that it
// starts are in the namespace.
func (n *namespace) do(f func()) {
	done := make(chan struct{})
	n.jobs <- func() { f(); close(done) }
	<-done
}

// run runs a program in the namespace.
func (n *namespace) run(name string, args ...string) error {
	_, err := n.feed("", name, args...)
	return err
}

// feed runs a program in the namespace with this input and returns its output. An
// error holds what the program said.
func (n *namespace) feed(input, name string, args ...string) (string, error) {
	path, err := program(name)
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	n.do(func() {
		cmd := exec.Command(path, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
		err = cmd.Run()
	})
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.Join(strings.Fields(said.String()), " "))
	}
	return out.String(), nil
}

// listen opens a socket for packets to port, with room for all that may come.
func (n *namespace) listen(port int) (conn *net.UDPConn, err error) {
	n.do(func() {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(recvIP), Port: port})
		if err != nil {
			return
		}
		err = control(conn, func(fd int) error {
			return errors.Join(
				syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, socketBuffer),
				syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1))
		})
	})
	return conn, err
}

// dial opens a socket to port whose packets are of class.
func (n *namespace) dial(port int, class uint32) (conn *net.UDPConn, err error) {
	n.do(func() {
		conn, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.ParseIP(recvIP), Port: port})
		if err != nil {
			return
		}
		err = control(conn, func(fd int) error {
			return errors.Join(
				syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUFFORCE, socketBuffer),
				syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_PRIORITY, int(int32(class))))
		})
	})
	return conn, err
}

// socketBuffer is more than 1000 queued packets of the largest size take, so that
// no sender blocks and no receiver loses any.
const socketBuffer = 256 << 20

func control(conn *net.UDPConn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(failed, err)
}

// record runs s once.
func record(ctx context.Context, s *scenario, o options) (*recording, error) {
	l, err := newLab(s)
	if err != nil {
		return nil, err
	}
	defer l.close()
	return l.record(ctx, s, o)
}
