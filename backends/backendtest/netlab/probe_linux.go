package netlab

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Probe opens a connection, reads what the server says, and closes it. The error is
// not nil only if the probe could not be sent at all.
func (l *Lab) Probe(p Probe) (Result, error) {
	c, res, err := l.Open(p)
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	return res, err
}

// Open is [Lab.Probe], but it leaves the connection open; the Conn is nil if there was
// no answer.
func (l *Lab) Open(p Probe) (*Conn, Result, error) {
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	deadline := time.Now().Add(p.Timeout)
	fd, err := l.clientSocket(p)
	if err != nil {
		return nil, Result{}, fmt.Errorf("netlab: probe %s from %s: %w", p.Destination, p.From, err)
	}
	f, err := connect(fd, p.Destination, deadline)
	if err != nil {
		return failed(err)
	}
	c := &Conn{f: f, r: bufio.NewReader(f), proto: p.Protocol}
	answer, err := c.hello()
	if err != nil {
		c.Close() //nolint:errcheck // the first error counts
		return failed(err)
	}
	c.last = answer
	return c, Result{Outcome: Answered, Answer: answer}, nil
}

// clientSocket returns a socket of the host, bound to the probe's source and to a
// port of its own.
func (l *Lab) clientSocket(p Probe) (fd int, err error) {
	ns := l.hosts[p.From]
	if ns == nil {
		return -1, fmt.Errorf("no such host")
	}
	source := p.Source
	if !source.IsValid() {
		source = netip.IPv4Unspecified()
		if p.Destination.Addr().Is6() {
			source = netip.IPv6Unspecified()
		}
	}
	err = ns.Do(func() (err error) {
		for range 100 { // ports may be taken by servers and open connections
			fd, err = newSocket(netip.AddrPortFrom(source, l.nextPort()), p.Protocol)
			if !errors.Is(err, unix.EADDRINUSE) {
				return err
			}
		}
		return err
	})
	return fd, err
}

func (l *Lab) nextPort() uint16 {
	n := l.port.Add(1) - firstPort
	return uint16(firstPort + n%(lastPort-firstPort+1)) //nolint:gosec // below lastPort
}

// failed sorts the errors of a connection into outcomes; what is neither is an
// error of the lab.
func failed(err error) (*Conn, Result, error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return nil, Result{Outcome: NoAnswer}, nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ECONNRESET):
		return nil, Result{Outcome: Refused}, nil
	default:
		return nil, Result{}, fmt.Errorf("netlab: %w", err)
	}
}

// A Conn is an open connection to a server of a [Lab]. It is not safe for concurrent
// use.
type Conn struct {
	f     *os.File
	r     *bufio.Reader
	proto corev1.Protocol
	last  Answer
}

// Answer returns what the server said last about the connection: at the start, and with
// UDP at each Ping, which another server may have answered.
func (c *Conn) Answer() Answer { return c.last }

// hello gets the server's line about the connection.
func (c *Conn) hello() (Answer, error) {
	// A packet that the own rules stop fails with EPERM; whether an ICMP error was
	// made of it, the next read tells.
	if _, err := c.f.WriteString("hello\n"); err != nil && !errors.Is(err, unix.EPERM) {
		return Answer{}, err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return Answer{}, err
	}
	return parseGreeting(line)
}

// Ping sends something on the open connection and waits for it to come back.
func (c *Conn) Ping(timeout time.Duration) error {
	if err := c.f.SetDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("netlab: ping: %w", err)
	}
	if c.proto == corev1.ProtocolUDP {
		answer, err := c.hello()
		if err == nil {
			c.last = answer
		}
		return err
	}
	if _, err := c.f.WriteString("ping\n"); err != nil {
		return fmt.Errorf("netlab: ping: %w", err)
	}
	if _, err := c.r.ReadString('\n'); err != nil {
		return fmt.Errorf("netlab: ping: %w", err)
	}
	return nil
}

// Close ends the connection at once.
func (c *Conn) Close() error {
	if c.proto != corev1.ProtocolUDP {
		raw, err := c.f.SyscallConn()
		if err != nil {
			return err
		}
		err = raw.Control(func(fd uintptr) {
			reset(int(fd)) //nolint:errcheck // only tidier
		})
		if err != nil {
			return err
		}
	}
	return c.f.Close()
}
