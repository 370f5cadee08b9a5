package traffic

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Sockets are used by plain system calls on threads that stay in one namespace: the
// runtime's poller would cost more than what is measured.

// patience is how long one exchange may take.
const patience = 5 * time.Second

func socket(kind int, source netip.Addr) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(patience))
	for _, set := range []error{
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: source.As4()}),
	} {
		if set != nil {
			return -1, closeAfter(fd, set)
		}
	}
	return fd, nil
}

func closeAfter(fd int, err error) error {
	_ = unix.Close(fd) // the first error counts
	return err
}

// dial returns a connected socket.
func dial(kind int, source netip.Addr, to netip.AddrPort) (int, error) {
	fd, err := socket(kind, source)
	if err != nil {
		return -1, err
	}
	if err := connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return -1, closeAfter(fd, fmt.Errorf("connect to %s: %w", to, err))
	}
	return fd, nil
}

// connect goes on when the runtime's signals interrupt it; the kernel does not, for the sake of
// the time limit.
func connect(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	for err == unix.EINTR || err == unix.EALREADY {
		err = unix.Connect(fd, to)
	}
	if err == unix.EISCONN {
		return nil
	}
	return err
}

// An exchange is one unit of load.
type exchange func(source netip.Addr, to netip.AddrPort) error

// connectTCP opens a connection and resets it, which leaves nothing behind on either side.
func connectTCP(source netip.Addr, to netip.AddrPort) error {
	fd, err := dial(unix.SOCK_STREAM, source, to)
	if err != nil {
		return err
	}
	err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	return closeAfter(fd, err)
}

// exchangeUDP sends a datagram from a new port and waits for its echo.
func exchangeUDP(source netip.Addr, to netip.AddrPort) error {
	fd, err := dial(unix.SOCK_DGRAM, source, to)
	if err != nil {
		return err
	}
	var buf [64]byte
	if _, err = unix.Write(fd, buf[:32]); err == nil {
		_, err = unix.Read(fd, buf[:])
	}
	for err == unix.EINTR {
		_, err = unix.Read(fd, buf[:])
	}
	return closeAfter(fd, err)
}
