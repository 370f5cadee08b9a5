package healthcheck

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// The bounds of open connections. A question takes milliseconds, so that many at a
// time are enough for thousands of probes per second, and each costs a file descriptor
// that a proxy needs for other things.
const (
	maxConnections = 256
	maxPerClient   = 64

	// clientBits6 is how much of an IPv6 address tells clients apart: everything that
	// one network segment hands out is one client.
	clientBits6 = 64
)

// A limiter bounds the open connections of some listeners together, and those of one
// client. Beyond the bound it closes the oldest one, of that client or of all: it has had its
// time, and a new client is answered whatever others keep open. It is safe for concurrent use.
type limiter struct {
	mu   sync.Mutex
	open []*limitedConn // in the order in which they were accepted
}

// listen returns ln with its connections counted by the limiter.
func (l *limiter) listen(ln net.Listener) net.Listener { return &limitedListener{ln, l} }

type limitedListener struct {
	net.Listener
	limiter *limiter
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.limiter.add(conn), nil
}

type limitedConn struct {
	net.Conn
	limiter *limiter
	client  netip.Prefix
}

func (c *limitedConn) Close() error {
	c.limiter.remove(c)
	return c.Conn.Close()
}

// CloseWrite lets a server send its last word to a client that still writes, as with the
// connection itself.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// add counts a new connection and closes the one that has to go for it.
func (l *limiter) add(conn net.Conn) net.Conn {
	c := &limitedConn{conn, l, clientOf(conn.RemoteAddr())}
	if victim := l.exchange(c); victim != nil {
		_ = victim.Conn.Close() // whoever serves it hears of it
	}
	return c
}

// exchange counts c and returns the connection that does not count any more, or nil.
func (l *limiter) exchange(c *limitedConn) (victim *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest, same := 0, 0
	for i, o := range slices.Backward(l.open) {
		if o.client == c.client {
			oldest, same = i, same+1
		}
	}
	if same < maxPerClient {
		oldest = 0
	}
	if same >= maxPerClient || len(l.open) >= maxConnections {
		victim = l.open[oldest]
		l.open = slices.Delete(l.open, oldest, oldest+1)
	}
	l.open = append(l.open, c)
	return victim
}

func (l *limiter) remove(c *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// clientOf returns who has an address. All that have none are one client.
func clientOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = clientBits6
	}
	client, _ := ip.Prefix(bits) // the zero Prefix for no address
	return client
}
