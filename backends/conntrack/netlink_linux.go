package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/bounded"
)

// receiveSize is enough for any answer: the kernel writes 32 KiB at most.
const receiveSize = 64 << 10

// receiveTimeout is how long the kernel may take for one answer, in seconds. It takes
// milliseconds.
const receiveTimeout = 30

// Netlink is the table of the network namespace of the calling thread. It needs
// CAP_NET_ADMIN there. Only Linux has it: elsewhere every error wraps [errors.ErrUnsupported].
type Netlink struct{}

var _ Table = Netlink{}

// Flows is as [Table] says. It keeps one answer of the kernel in memory, some hundred flows.
func (Netlink) Flows(ctx context.Context, f corev1.IPFamily) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) {
		done, err := readFlows(ctx, f, func(flow Flow) bool { return yield(flow, nil) })
		if !done && err != nil {
			yield(Flow{}, err)
		}
	}
}

// readFlows calls yield for each flow; done says that yield wanted no more.
func readFlows(ctx context.Context, f corev1.IPFamily, yield func(Flow) bool) (done bool, err error) {
	s, err := openSocket()
	if err != nil {
		return false, err
	}
	defer s.close()
	var m message
	m.dump(1, f)
	if err := s.send(m.b); err != nil {
		return false, err
	}
	interrupted := false
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		b, err := s.receive()
		if err != nil {
			return false, err
		}
		for len(b) > 0 {
			var a answer
			if a, b, err = nextAnswer(b); err != nil {
				return false, err
			}
			interrupted = interrupted || a.flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case a.kind == unix.NLMSG_DONE || a.kind == unix.NLMSG_ERROR:
				return false, a.end(interrupted)
			case len(a.data) < nl.SizeofNfgenmsg:
			default:
				if flow, ok := parseFlow(a.data[nl.SizeofNfgenmsg:]); ok && !yield(flow) {
					return true, nil
				}
			}
		}
	}
}

// Delete is as [Table] says.
func (Netlink) Delete(ctx context.Context, flows []Flow) (deleted int, err error) {
	s, err := openSocket()
	if err != nil {
		return 0, err
	}
	defer s.close()
	var errs []error
	for len(flows) > 0 {
		if err := ctx.Err(); err != nil {
			return deleted, bounded.Join(append(errs, err)...)
		}
		n := min(len(flows), batchSize)
		var m message
		for i, flow := range flows[:n] {
			m.remove(uint32(i), flow)
		}
		if err := s.send(m.b); err != nil {
			return deleted, bounded.Join(append(errs, err)...)
		}
		gone, err := s.acknowledged(n)
		deleted += gone
		if err != nil {
			errs = append(errs, err)
		}
		flows = flows[n:]
	}
	return deleted, bounded.Join(errs...)
}

// localAddrs lists the addresses of all interfaces of one family.
func localAddrs(_ context.Context, f corev1.IPFamily) ([]netip.Addr, error) {
	list, err := netlink.AddrList(nil, int(afOf(f)))
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

// A socket talks to the kernel's netfilter.
type socket struct {
	fd     int
	buffer []byte
}

func openSocket() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	s := &socket{fd: fd, buffer: make([]byte, receiveSize)}
	// Without it a request comes back with each answer. Older kernels than 4.3 refuse,
	// and then it does.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: receiveTimeout}); err != nil {
		s.close()
		return nil, fmt.Errorf("set timeout: %w", err)
	}
	return s, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

func (s *socket) send(b []byte) error {
	err := unix.Sendto(s.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// receive returns the next answers, which are valid until the next call.
func (s *socket) receive() ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buffer, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue // by a signal: nothing was received
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		case n > len(s.buffer):
			return nil, fmt.Errorf("receive: answer of %d bytes is cut off", n)
		}
		return s.buffer[:n], nil
	}
}

// acknowledged takes n acknowledgements of deletions, and returns how many flows
// were there.
func (s *socket) acknowledged(n int) (deleted int, err error) {
	var first error
	for n > 0 {
		b, err := s.receive()
		if err != nil {
			return deleted, err
		}
		for len(b) > 0 {
			var a answer
			if a, b, err = nextAnswer(b); err != nil {
				return deleted, err
			}
			n--
			switch err := a.end(false); {
			case err == nil:
				deleted++
			case !errors.Is(err, unix.ENOENT) && first == nil:
				first = err
			}
		}
	}
	return deleted, first
}

// An answer is one message from the kernel.
type answer struct {
	kind, flags uint16
	data        []byte
}

// nextAnswer splits the first message off b.
func nextAnswer(b []byte) (a answer, rest []byte, err error) {
	if len(b) < unix.SizeofNlMsghdr {
		return answer{}, nil, fmt.Errorf("receive: answer of %d bytes is too short", len(b))
	}
	n := int(binary.NativeEndian.Uint32(b))
	if n < unix.SizeofNlMsghdr || n > len(b) {
		return answer{}, nil, fmt.Errorf("receive: answer says %d bytes and has %d", n, len(b))
	}
	a = answer{
		kind:  binary.NativeEndian.Uint16(b[4:]),
		flags: binary.NativeEndian.Uint16(b[6:]),
		data:  b[unix.SizeofNlMsghdr:n],
	}
	return a, b[min(len(b), (n+3)&^3):], nil
}

// end returns the error that a last message carries, ErrInterrupted if it carries none
// but the dump was interrupted.
func (a answer) end(interrupted bool) error {
	if len(a.data) >= 4 {
		// The kernel writes the negative of an errno.
		if code := int32(binary.NativeEndian.Uint32(a.data)); code < 0 {
			err := unix.Errno(-code)
			if err == unix.EINTR {
				return fmt.Errorf("dump: %w: %w", ErrInterrupted, err)
			}
			return err
		}
	}
	if interrupted {
		return fmt.Errorf("dump: %w", ErrInterrupted)
	}
	return nil
}
