package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A site is an address, port and protocol that is served.
type site struct {
	addr  netip.AddrPort
	proto corev1.Protocol
}

func (s site) key() ServerKey {
	return ServerKey{Addr: s.addr, Protocol: s.proto, Family: ip.Family(s.addr.Addr())}
}

func (s site) element() string {
	return fmt.Sprintf("%s . %s . %d", s.addr.Addr(), strings.ToLower(string(s.proto)), s.addr.Port())
}

// An element is one in a set or map of the table; value is empty in a set.
type element struct {
	box, key, value string
}

// A want is all about one site of one port: its virtual server, and what the table says
// of it.
type want struct {
	site
	nodePort bool // gives way to an exact address
	bound    bool // we bind the address for it
	cluster  bool // the address is a ClusterIP: nobody else's, whatever becomes of the Service
	leaves   bool // nobody wants it any more, but it has connections

	server   VirtualServer
	elements []element
}

// A program is what one Service port needs.
type program struct {
	key  plan.Key
	held bool // of a version before the one that could not be written

	wants    []want
	marked   []VirtualServer // by mark
	elements []element       // that belong to no site
}

// A node is what the programs depend on besides their port. It changes with a full
// Sync only.
type node struct {
	opts  Options
	own   map[netip.Addr]bool // addresses that are on this machine without us, or should be
	here  map[netip.Addr]bool // of these, those that are; nil if that is not known
	local []netip.Addr        // those that are, to choose NodePort addresses from
	plan  *plan.Plan
	mark  func(k plan.Key, pool plan.Pool) uint32
}

// compile returns the program of a port.
func (n *node) compile(p *plan.Port) (*program, error) {
	if p == nil {
		return &program{}, nil
	}
	out := &program{key: p.Key}
	pools := make(map[plan.Pool]bool)
	for i := range p.Frontends {
		f := &p.Frontends[i]
		for _, addr := range n.addresses(p, f) {
			w, err := n.want(p, f, addr, pools)
			if err != nil {
				return nil, err
			}
			out.wants = append(out.wants, w)
		}
		if f.Kind == plan.ClusterIP {
			out.elements = append(out.elements, element{box: box(boxClusterIPs, p.Family), key: f.Addr.String()})
		}
	}
	for _, pool := range []plan.Pool{plan.ClusterPool, plan.LocalPool} {
		if pools[pool] {
			key := ServerKey{Mark: n.mark(p.Key, pool), Family: p.Family}
			out.marked = append(out.marked, n.server(p, key, pool))
		}
	}
	if p.HealthCheckNodePort != 0 {
		out.elements = append(out.elements, element{box: box(boxHealthChecks, p.Family), key: strconv.Itoa(int(p.HealthCheckNodePort))})
	}
	return out, nil
}

// addresses returns where a frontend is served.
func (n *node) addresses(p *plan.Port, f *plan.Frontend) []netip.Addr {
	if f.Kind != plan.NodePort {
		if n.elsewhere(f.Addr) {
			return nil
		}
		return []netip.Addr{f.Addr}
	}
	a := n.plan.NodePortAddresses(p.Family)
	addrs := slices.Clone(a.Addrs)
	for _, l := range n.local {
		if ip.Family(l) == p.Family && a.Serves(l) && !slices.Contains(addrs, l) {
			addrs = append(addrs, l)
		}
	}
	return slices.DeleteFunc(addrs, unservable)
}

// unservable tells the addresses that IPVS cannot serve: on loopback the source could not
// be answered, and an IPv6 link-local address means nothing without its link.
func unservable(a netip.Addr) bool { return a.IsLoopback() || a.Is6() && a.IsLinkLocalUnicast() }

// elsewhere reports whether an address is that of another machine.
func (n *node) elsewhere(a netip.Addr) bool {
	return !n.own[a] && n.opts.Elsewhere != nil && n.opts.Elsewhere(a)
}

// want turns one row of the decision table into a virtual server and elements. The
// virtual server by address holds what outside reaches; where pods or the node reach another
// pool, pools gets it.
func (n *node) want(p *plan.Port, f *plan.Frontend, addr netip.Addr, pools map[plan.Pool]bool) (want, error) {
	w := want{site: site{netip.AddrPortFrom(addr, f.Port), p.Protocol}, nodePort: f.Kind == plan.NodePort, cluster: f.Kind == plan.ClusterIP}
	outside := f.Actions[plan.FromOutside].Pool
	w.server = n.server(p, w.key(), outside)
	w.add(boxFrontends, "")
	if w.bound = !w.nodePort && !n.own[addr]; w.bound {
		w.elements = append(w.elements, w.boundElement())
	}
	w.restrict(f)
	for i, a := range f.Actions {
		origin := plan.Origin(i)
		switch {
		case a.Verdict == plan.Reject:
			w.add(boxDeny+origin.String(), verdictRefuse)
		case a.Verdict == plan.Drop:
			w.add(boxDeny+origin.String(), verdictDrop)
		case a.Verdict != plan.Forward:
		case a.Pool != outside && a.Masquerade && origin == plan.FromPod:
			return w, fmt.Errorf("ipvs: compile %s %s: pods are masqueraded to a pool of their own, which is not possible", p.PortName, f)
		case a.Pool != outside:
			mark := n.mark(p.Key, a.Pool)
			pools[a.Pool] = true
			w.add(boxPool+origin.String(), hex(mark))
			if a.Masquerade {
				w.elements = append(w.elements, element{box: boxMasqueradeMarks, key: hex(mark)})
			}
		case a.Masquerade:
			w.add(boxMasquerade+origin.String(), "")
		}
	}
	return w, nil
}

func hex(mark uint32) string { return fmt.Sprintf("0x%08x", mark) }

func (w *want) add(name, value string) {
	w.elements = append(w.elements, element{box(name, ip.Family(w.addr.Addr())), w.element(), value})
}

// restrict adds the source ranges.
func (w *want) restrict(f *plan.Frontend) {
	if !f.Restricted {
		return
	}
	w.add(boxRestricted, "")
	for _, r := range f.Allow {
		w.elements = append(w.elements, element{
			box: box(boxAllowed, ip.Family(w.addr.Addr())), key: w.element() + " . " + r.String(),
		})
	}
}

// server returns a virtual server for a pool of a port.
func (n *node) server(p *plan.Port, key ServerKey, pool plan.Pool) VirtualServer {
	b := n.opts.balance(p)
	v := VirtualServer{
		ServerKey: key, Scheduler: b.Scheduler, HashPort: b.HashPort, HashFallback: b.HashFallback,
		Persistence: wholeSeconds(p.AffinityTimeout), Connectionless: p.Protocol == corev1.ProtocolUDP,
	}
	for _, e := range p.Endpoints(pool) {
		v.Real = append(v.Real, realServer(e))
	}
	slices.SortFunc(v.Real, compareReal)
	return v
}

func realServer(e *endpoints.Endpoint) RealServer {
	return RealServer{Addr: e.Addr, Weight: int(e.Weight)}
}

// leaving returns what the site of w is while the connections of a virtual server that is not
// wanted any more go on: new ones meet verdict. A ClusterIP stays bound for them.
func (w want) leaving(verdict string) want {
	out := want{
		site: w.site, bound: w.bound, cluster: w.cluster, leaves: true,
		server: VirtualServer{ServerKey: w.key(), Connectionless: w.proto == corev1.ProtocolUDP},
	}
	out.add(boxFrontends, "")
	for _, o := range origins() {
		out.add(boxDeny+o.String(), verdict)
	}
	if w.cluster && w.bound {
		gone := out.boundElement()
		gone.box = box(boxGoneIPs, ip.Family(w.addr.Addr()))
		out.elements = append(out.elements, out.boundElement(), gone)
	}
	return out
}

func (s site) boundElement() element {
	a := s.addr.Addr()
	return element{box: box(boxBound, ip.Family(a)), key: a.String()}
}

// parseSite is the reverse of site.element.
func parseSite(key []string) (site, bool) {
	if len(key) != 3 {
		return site{}, false
	}
	addr, err := netip.ParseAddr(key[0])
	port, err2 := strconv.ParseUint(key[2], 10, 16)
	proto := corev1.Protocol(strings.ToUpper(key[1]))
	if err != nil || err2 != nil || protocolNumber(proto) == 0 {
		return site{}, false
	}
	return site{netip.AddrPortFrom(addr, uint16(port)), proto}, true
}
