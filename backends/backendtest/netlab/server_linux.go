package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// A server answers the first line of every connection with a line that says who is
// talking to whom, and then every byte with the same byte; every datagram with the line.
//
// It does not talk first: what a server sends right after the handshake can overtake it
// on the way through several CPUs, and SCTP then waits 3 seconds before it sends again.
type server struct {
	stop io.Closer
	wg   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

// Serve starts a server on an address that a host of the Lab has; a second
// call with the same arguments does nothing. The server runs until [Lab.Close]. The
// error wraps [errors.ErrUnsupported] if the kernel lacks the protocol.
func (l *Lab) Serve(addr netip.AddrPort, proto corev1.Protocol) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := serverKey{addr, proto}
	if l.servers[k] != nil {
		return nil
	}
	ns := l.hosts[l.Owner(addr.Addr())]
	if ns == nil {
		return fmt.Errorf("netlab: serve %s: no host has the address", addr)
	}
	fd := -1
	err := ns.Do(func() (err error) {
		fd, err = newSocket(addr, proto)
		return err
	})
	if err != nil {
		return fmt.Errorf("netlab: serve %s: %w", addr, err)
	}
	s, err := startServer(fd, proto)
	if err != nil {
		return fmt.Errorf("netlab: serve %s: %w", addr, err)
	}
	l.servers[k] = s
	return nil
}

func startServer(fd int, proto corev1.Protocol) (*server, error) {
	s := &server{conns: make(map[net.Conn]bool)}
	if proto == corev1.ProtocolUDP {
		f := os.NewFile(uintptr(fd), "udp")
		defer f.Close() //nolint:errcheck // net has its own copy
		pc, err := net.FilePacketConn(f)
		if err != nil {
			return nil, err
		}
		s.stop = pc
		s.wg.Go(func() { answerDatagrams(pc) })
		return s, nil
	}
	ln, err := listen(fd)
	if err != nil {
		return nil, err
	}
	s.stop = ln
	s.wg.Go(func() { s.accept(ln) })
	return s, nil
}

func answerDatagrams(pc net.PacketConn) {
	buf := make([]byte, 2048)
	for {
		_, peer, err := pc.ReadFrom(buf)
		switch {
		case err == nil:
			// A client that is gone by now makes this or the next call fail.
			pc.WriteTo(greeting(pc.LocalAddr(), peer), peer) //nolint:errcheck // see above
		case errors.Is(err, net.ErrClosed):
			return
		}
	}
}

func (s *server) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !s.track(c, true) {
			continue
		}
		s.wg.Go(func() {
			defer s.track(c, false)
			talk(c)
		})
	}
}

// talk ends when the client does.
func talk(c net.Conn) {
	r := bufio.NewReader(c)
	if _, err := r.ReadString('\n'); err != nil {
		return
	}
	if _, err := c.Write(greeting(c.LocalAddr(), c.RemoteAddr())); err != nil {
		return
	}
	io.Copy(c, r) //nolint:errcheck // see above
}

// track adds a connection, or closes and forgets it. It reports whether the server
// is still running.
func (s *server) track(c net.Conn, add bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !add || s.conns == nil {
		c.Close() //nolint:errcheck // nothing was promised
		delete(s.conns, c)
		return false
	}
	s.conns[c] = true
	return true
}

func (s *server) close() error {
	err := s.stop.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close() //nolint:errcheck // nothing was promised
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

func greeting(local, peer net.Addr) []byte {
	return fmt.Appendf(nil, "%s %s\n", local, peer)
}

// parseGreeting is the opposite of greeting.
func parseGreeting(line string) (Answer, error) {
	var local, peer string
	if _, err := fmt.Sscanf(line, "%s %s", &local, &peer); err != nil {
		return Answer{}, fmt.Errorf("unexpected answer %q: %w", line, err)
	}
	server, err := netip.ParseAddrPort(local)
	if err != nil {
		return Answer{}, fmt.Errorf("unexpected answer %q: %w", line, err)
	}
	client, err := netip.ParseAddrPort(peer)
	if err != nil {
		return Answer{}, fmt.Errorf("unexpected answer %q: %w", line, err)
	}
	return Answer{Server: server, Peer: client}, nil
}

// HasProtocol reports by its error whether the kernel has sockets of a protocol;
// the error then wraps [errors.ErrUnsupported].
func HasProtocol(proto corev1.Protocol) error {
	fd, err := newSocket(netip.MustParseAddrPort("127.0.0.1:0"), proto)
	if err != nil {
		return fmt.Errorf("netlab: %w", err)
	}
	return unix.Close(fd)
}
