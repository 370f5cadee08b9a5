package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Source ports are taken in turn from this range, which the namespaces' kernels do
// not choose from by themselves.
const (
	firstPort = 10000
	lastPort  = 60999
)

// newSocket makes a socket in the current namespace. It is bound to addr, which may
// have port 0, and does not block.
func newSocket(addr netip.AddrPort, proto corev1.Protocol) (fd int, err error) {
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	kind, number := unix.SOCK_STREAM, unix.IPPROTO_TCP
	switch proto {
	case corev1.ProtocolUDP:
		kind, number = unix.SOCK_DGRAM, unix.IPPROTO_UDP
	case corev1.ProtocolSCTP:
		number = unix.IPPROTO_SCTP
	case corev1.ProtocolTCP:
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, number)
	if err != nil {
		return -1, fmt.Errorf("%s socket: %w", proto, unsupported(err))
	}
	if err := prepare(fd, addr, proto); err != nil {
		unix.Close(fd) //nolint:errcheck // the first error counts
		return -1, err
	}
	return fd, nil
}

func prepare(fd int, addr netip.AddrPort, proto corev1.Protocol) error {
	if proto == corev1.ProtocolTCP {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return fmt.Errorf("socket option: %w", err)
		}
	}
	if err := unix.Bind(fd, sockaddr(addr)); err != nil {
		return fmt.Errorf("bind %s: %w", addr, err)
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// connect connects a socket and waits until it is connected or deadline has come.
// It takes fd over: the file closes it, and so does an error.
func connect(fd int, dst netip.AddrPort, deadline time.Time) (*os.File, error) {
	f := os.NewFile(uintptr(fd), "socket")
	if err := f.SetDeadline(deadline); err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	if err = queueErrors(fd, dst.Addr()); err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	started := false
	var failed error
	err = raw.Write(func(uintptr) bool {
		if !started {
			started = true
			failed = unix.Connect(fd, sockaddr(dst))
			return !errors.Is(failed, unix.EINPROGRESS)
		}
		var done bool
		done, failed = connected(fd)
		return done
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	return f, nil
}

// connected reports whether an attempt to connect has ended, and how.
func connected(fd int) (bool, error) {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return true, err
	}
	if code != 0 {
		return true, unix.Errno(code) //nolint:gosec // an errno
	}
	if err = queuedError(fd); err != nil {
		return true, err
	}
	// A socket is also writable before it connects: only a peer tells.
	_, err = unix.Getpeername(fd)
	return err == nil, err
}

// queueErrors asks for ICMP errors in the error queue, see queuedError.
func queueErrors(fd int, dst netip.Addr) error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if dst.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	return unix.SetsockoptInt(fd, level, option, 1)
}

// queuedError takes an ICMP error from the error queue. TCP puts it there in any case,
// but ignores it otherwise if it arrives while connect is still at work, as it
// does on such short ways, and then sends again a second later.
func queuedError(fd int) error {
	data, control := make([]byte, 512), make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, data, control, unix.MSG_ERRQUEUE)
	if err != nil {
		return nil // the queue is empty
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return fmt.Errorf("error queue: %w", err)
	}
	for _, m := range messages {
		// The first field of struct sock_extended_err is the errno.
		recverr := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if recverr && len(m.Data) >= 4 {
			return unix.Errno(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return nil
}

// listen returns what accepts connections on fd, and takes fd over.
func listen(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close() //nolint:errcheck // net has its own copy
	if err := unix.Listen(fd, 512); err != nil {
		return nil, err
	}
	return net.FileListener(f)
}
