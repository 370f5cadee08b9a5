package traffic

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// bufferSize is what a bulk transfer writes and reads at once.
const bufferSize = 256 << 10

// serve starts the servers in the namespace of the calling thread. They live as long as the
// process.
func serve() error {
	addr := ":" + strconv.Itoa(port)
	tcp, err := net.Listen("tcp4", addr)
	if err != nil {
		return fmt.Errorf("traffic: %w", err)
	}
	fd, err := blocking(tcp.(*net.TCPListener))
	if err != nil {
		return err
	}
	for range 2 {
		go accept(fd)
	}
	for i := range affinityEndpoints {
		if err := serveUDP(net.UDPAddrFromAddrPort(netip.AddrPortFrom(serverIP(i), port))); err != nil {
			return err
		}
	}
	return nil
}

// serveUDP has a socket for each address: a common one would answer from the first.
func serveUDP(addr *net.UDPAddr) error {
	udp, err := net.ListenUDP("udp4", addr)
	if err != nil {
		return fmt.Errorf("traffic: %w", err)
	}
	fd, err := blocking(udp)
	if err != nil {
		return err
	}
	go echo(fd)
	return nil
}

// blocking returns a descriptor of a socket that blocks.
func blocking(s interface{ File() (*os.File, error) }) (int, error) {
	f, err := s.File()
	if err != nil {
		return -1, fmt.Errorf("traffic: %w", err)
	}
	fd := int(f.Fd()) // makes it blocking
	return unix.Dup(fd)
}

// accept takes connections until the listener is gone. Most are reset by then; a bulk transfer is
// read to its end.
func accept(listener int) {
	// One for all connections: to make one for each would keep the garbage collector busy, which goes
	// through what the proxy in this process has.
	buf := make([]byte, bufferSize)
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err == unix.EBADF || err == unix.EINVAL {
			return
		}
		if err == nil {
			drain(fd, buf)
		}
	}
}

func drain(fd int, buf []byte) {
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for {
		if n, err := unix.Read(fd, buf); n <= 0 || err != nil {
			return
		}
	}
}

func echo(fd int) {
	buf := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EBADF {
			return
		}
		if err == nil {
			_ = unix.Sendto(fd, buf[:n], 0, from) // as unreliable as UDP
		}
	}
}
