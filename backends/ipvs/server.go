package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// A ServerKey names a virtual server: by address, port and protocol, or by
// firewall mark. It is comparable.
type ServerKey struct {
	// Addr and Protocol are what clients dial; the zero values if Mark is set.
	Addr     netip.AddrPort
	Protocol corev1.Protocol

	// Mark makes this the virtual server for all packets that have exactly this mark,
	// whatever their destination. IPVS compares all 32 bits.
	Mark uint32

	// Family is that of the real servers. Empty means that of Addr; a virtual server by
	// mark must have it.
	Family corev1.IPFamily
}

// normal returns k in the form in which the kernel's answers are read.
func (k ServerKey) normal() ServerKey {
	if k.Mark != 0 {
		return k
	}
	k.Addr = netip.AddrPortFrom(ip.Canonical(k.Addr.Addr()), k.Addr.Port())
	k.Family = ip.Family(k.Addr.Addr())
	return k
}

// String returns "TCP 10.96.0.10:80" or "mark 0x56000001 IPv4".
func (k ServerKey) String() string {
	if k.Mark != 0 {
		return fmt.Sprintf("mark %#x %s", k.Mark, k.Family)
	}
	return fmt.Sprintf("%s %s", k.Protocol, k.Addr)
}

// Compare orders by address, port, protocol, mark and family.
func (k ServerKey) Compare(o ServerKey) int {
	return cmp.Or(k.Addr.Compare(o.Addr), strings.Compare(string(k.Protocol), string(o.Protocol)),
		cmp.Compare(k.Mark, o.Mark), strings.Compare(string(k.Family), string(o.Family)))
}

// A VirtualServer is an address that IPVS balances, and where to.
type VirtualServer struct {
	ServerKey

	// Scheduler is the name of the balancing algorithm, as in the kernel module
	// ip_vs_NAME: one of "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed",
	// "nq", "mh", "fo", "ovf", "twos", or any other that the kernel has. Empty means "rr".
	Scheduler string

	// HashPort lets the schedulers sh and mh hash the client's port too; HashFallback
	// lets them choose another server when the chosen one has weight 0 (sh and mh: flags
	// sh-port, sh-fallback, mh-port, mh-fallback of ipvsadm). Others ignore them.
	HashPort, HashFallback bool

	// Persistence is how long a client stays with a real server after its last
	// connection; 0 means no persistence. The kernel counts whole seconds.
	Persistence time.Duration

	// Connectionless says that real servers that are not wanted any more are removed at
	// once and not drained. It is implied for UDP; the kernel does not know it, so it is
	// false in what is read back of a virtual server by mark.
	Connectionless bool

	// Real are the real servers. Their order has no meaning; read back they are sorted
	// by address.
	Real []RealServer
}

// A RealServer is one place where a virtual server's connections go to.
type RealServer struct {
	// Addr is of the family of the virtual server. Port 0 means the port that was dialed.
	Addr netip.AddrPort

	// Weight is the share of new connections, 1 to 65535 for schedulers that know
	// weights. With 0 the server gets no new connections and stays for those it has.
	Weight int

	// Forward is how packets get there.
	Forward Forward

	// Active and Inactive are the connections that the kernel counts: established ones and
	// others (for TCP those that are closing). They are only read.
	Active, Inactive int

	// deadline is until when a real server at weight 0 is drained, 0 if it is not. The kernel
	// keeps it: see threshold.
	deadline uint32
}

// Draining reports whether a real server that was read back is on its way out, and until
// when at the latest its connections may last.
func (r RealServer) Draining() (until time.Time, ok bool) {
	if r.Weight != 0 || r.deadline == 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(r.deadline), 0), true
}

// Forward is how packets reach a real server.
type Forward uint8

// The ways to forward packets. The numbers are those of the kernel
// (IP_VS_CONN_F_MASQ and so on in linux/ip_vs.h).
const (
	NAT         Forward = 0 // the destination is rewritten
	Tunnel      Forward = 2 // encapsulated
	DirectRoute Forward = 3 // sent on as it is; the real server has the address too
)

// normal returns v with defaults filled in and its real servers sorted, or what is wrong.
func (v VirtualServer) normal() (VirtualServer, error) {
	v.ServerKey = v.ServerKey.normal()
	if v.Scheduler == "" {
		v.Scheduler = defaultScheduler
	}
	v.Persistence = wholeSeconds(v.Persistence)
	v.Connectionless = v.Connectionless || v.Protocol == corev1.ProtocolUDP
	v.Real = slices.Clone(v.Real)
	for i := range v.Real {
		r := &v.Real[i]
		r.Addr = netip.AddrPortFrom(ip.Canonical(r.Addr.Addr()), r.Addr.Port())
		r.Active, r.Inactive, r.deadline = 0, 0, 0
	}
	slices.SortFunc(v.Real, compareReal)
	return v, v.check()
}

const defaultScheduler = "rr"

// wholeSeconds rounds up: a client is never let go before its time.
func wholeSeconds(d time.Duration) time.Duration {
	if d < 0 {
		return d
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

func compareReal(a, b RealServer) int { return a.Addr.Compare(b.Addr) }

func (v *VirtualServer) check() error {
	switch {
	case v.Mark != 0 && v.Family == "":
		return fmt.Errorf("virtual server %s: no family", v.ServerKey)
	case v.Mark == 0 && !v.Addr.IsValid():
		return fmt.Errorf("virtual server %s: neither address nor mark", v.ServerKey)
	case v.Mark == 0 && protocolNumber(v.Protocol) == 0:
		return fmt.Errorf("virtual server %s: protocol %q is not TCP, UDP or SCTP", v.ServerKey, v.Protocol)
	case v.Persistence < 0:
		return fmt.Errorf("virtual server %s: negative persistence", v.ServerKey)
	}
	for i, r := range v.Real {
		switch {
		case !r.Addr.IsValid() || ip.Family(r.Addr.Addr()) != v.Family:
			return fmt.Errorf("virtual server %s: real server %s: not an %s address", v.ServerKey, r.Addr, v.Family)
		case r.Weight < 0 || r.Weight > maxWeight:
			return fmt.Errorf("virtual server %s: real server %s: weight %d is not within 0 and %d", v.ServerKey, r.Addr, r.Weight, maxWeight)
		case i > 0 && v.Real[i-1].Addr == r.Addr:
			return fmt.Errorf("virtual server %s: real server %s: given twice", v.ServerKey, r.Addr)
		}
	}
	return nil
}

// maxWeight is what the 16 bits that the kernel answers with can hold.
const maxWeight = 65535

// protocolNumber returns the number in the IP header, 0 for a protocol that IPVS does not balance.
func protocolNumber(p corev1.Protocol) uint16 {
	switch p {
	case corev1.ProtocolTCP:
		return 6
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	}
	return 0
}

// sameSettings reports whether all but the real servers is equal.
func (v *VirtualServer) sameSettings(o *VirtualServer) bool {
	return v.Scheduler == o.Scheduler && v.HashPort == o.HashPort && v.HashFallback == o.HashFallback &&
		v.Persistence == o.Persistence
}
