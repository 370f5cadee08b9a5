package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

type (
	object = engine.Object[id, value]
	edit   = engine.Edit[id, value]
)

// An id names an object: a virtual server with all that the table says of its site, a bound address, an element of the
// table by its set, the rules.
type id struct {
	kind, name string
}

func (i id) String() string { return strings.TrimSpace(i.kind + " " + i.name) }

// Kinds of objects that are not the name of a set.
const (
	kindServer   = "virtual server"
	kindAddress  = "bound address"
	kindRules    = "rules of the table"
	kindTimeouts = "timeouts"
)

// Ranks of sites.
const (
	rankNodePort = iota
	rankAddress  // an exact address comes first
)

func serverID(k ServerKey) id { return id{kindServer, k.String()} }

// A value is what an object is; an object has some of it.
type value struct {
	elements []element // of the table, sorted

	server  *VirtualServer
	bound   bool // we bind the address of the server
	cluster bool // it is a ClusterIP: nobody else's, whatever becomes of the Service

	addr   netip.Addr // that is to be bound
	routed bool       // and is: without, only the table has it
	source netip.Addr // with which the node dials it, if valid
	moved  bool       // an interface has the address too: it was found so

	rules    []rule
	chains   map[string]int // instead of rules, what was found: how many each chain has
	timeouts Timeouts
}

// Equal is part of [engine.Dialect].
func (*dialect) Equal(a, b value) bool {
	return slices.Equal(a.elements, b.elements) && sameServer(a.server, b.server) &&
		a.routed == b.routed && a.source == b.source && a.moved == b.moved && sameRules(a, b) && a.timeouts == b.timeouts
}

func sameServer(a, b *VirtualServer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.sameSettings(b) && slices.EqualFunc(a.Real, b.Real, func(a, b RealServer) bool {
		return a.Addr == b.Addr && a.Weight == b.Weight && a.Forward == b.Forward
	})
}

func sameRules(a, b value) bool {
	switch {
	case a.chains != nil:
		return sameRules(b, a)
	case b.chains == nil:
		return slices.Equal(a.rules, b.rules)
	}
	want := make(map[string]int, len(b.chains))
	for name := range b.chains {
		want[name] = 0
	}
	for _, r := range a.rules {
		want[r.chain]++
	}
	return maps.Equal(want, b.chains)
}

// single is an object that is one element of a set.
func single(c cell) object {
	return object{ID: id{c.box, c.key}, Value: value{elements: []element{{cell: c}}}}
}

// A compiler makes the objects of a port.
type compiler struct {
	*dialect
	plan    *plan.Plan
	port    *plan.Port
	balance Balance
	real    [3][]RealServer // by pool
	marked  [3]uint32       // by pool; 0 if no site has it
	masq    [3]bool         // whether what has the mark is masqueraded
	out     []object
}

// Compile is part of [engine.Dialect]. The first time it meets a scheduler it asks the kernel for it.
func (d *dialect) Compile(p *plan.Plan, port *plan.Port, _ []object) ([]object, error) {
	if port == nil {
		return d.base(p), nil
	}
	c := &compiler{dialect: d, plan: p, port: port, balance: d.opts.balance(port)}
	if err := d.try(c.balance.Scheduler); err != nil {
		return nil, err
	}
	for i := range port.Frontends {
		f := &port.Frontends[i]
		for _, a := range c.addresses(f) {
			if err := c.site(f, a); err != nil {
				return nil, err
			}
		}
	}
	c.servers()
	return c.out, nil
}

// addresses returns where a frontend is served.
func (c *compiler) addresses(f *plan.Frontend) []netip.Addr {
	if f.Kind != plan.NodePort {
		if c.isElsewhere(c.plan, f.Addr) {
			return nil
		}
		return []netip.Addr{f.Addr}
	}
	a := c.plan.NodePortAddresses(c.port.Family)
	addrs := slices.Clone(a.Addrs)
	for _, l := range c.machine {
		if ip.Family(l) == c.port.Family && a.Serves(l) && !slices.Contains(addrs, l) {
			addrs = append(addrs, l)
		}
	}
	return slices.DeleteFunc(addrs, unservable)
}

// unservable reports whether IPVS cannot serve an address: on loopback the source could not
// be answered, and an IPv6 link-local address means nothing without its link.
func unservable(a netip.Addr) bool { return a.IsLoopback() || a.Is6() && a.IsLinkLocalUnicast() }

// isOwn reports whether an address is on this machine without us, or should be.
func (d *dialect) isOwn(p *plan.Plan, a netip.Addr) bool {
	return slices.Contains(p.Config().Node.Addresses, a) || d.hasAddress(a)
}

func (d *dialect) hasAddress(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(d.machine, a, netip.Addr.Compare)
	return found
}

// isElsewhere reports whether an address is that of another machine.
func (d *dialect) isElsewhere(p *plan.Plan, a netip.Addr) bool {
	return d.opts.Elsewhere != nil && !d.isOwn(p, a) && d.opts.Elsewhere(a)
}

// source returns the address with which the node dials a bound one: the primary one of those that this
// machine has. The kernel takes no others; the zero value lets it choose.
func (d *dialect) source(p *plan.Plan, a netip.Addr) netip.Addr {
	for _, own := range p.Config().Node.Addresses {
		if own.Is4() == a.Is4() && (d.machine == nil || d.hasAddress(own)) {
			return own
		}
	}
	return netip.Addr{}
}

// site adds a virtual server with its elements for one row of the decision table at one address, and what binds the address. The
// virtual server has what outside reaches; where pods or the node reach another
// pool, they get a mark.
func (c *compiler) site(f *plan.Frontend, addr netip.Addr) error {
	k := ServerKey{Addr: netip.AddrPortFrom(addr, f.Port), Protocol: c.port.Protocol, Family: ip.Family(addr)}
	own := c.isOwn(c.plan, addr)
	v := value{server: c.server(k, f.Actions[plan.FromOutside].Pool), bound: f.Kind != plan.NodePort && !own, cluster: f.Kind == plan.ClusterIP}
	s := k.site()
	v.add(s.in(boxFrontends), "")
	if f.Restricted {
		v.add(s.in(boxRestricted), "")
		for _, r := range f.Allow {
			at := s.in(boxAllowed)
			at.key += " . " + rangeText(r)
			v.add(at, "")
		}
	}
	for i := range f.Actions {
		if err := c.action(&v, s, f, plan.Origin(i)); err != nil {
			return err
		}
	}
	sortElements(v.elements)
	o := object{ID: serverID(k), Value: v, Rank: rankAddress, Shared: own}
	if f.Kind == plan.NodePort {
		o.Rank, o.Shared = rankNodePort, true
	}
	c.out = append(c.out, o)
	if v.bound {
		at := value{addr: addr, routed: true, source: c.source(c.plan, addr), elements: []element{{cell: addrCell(boxBound, addr)}}}
		c.out = append(c.out, object{ID: id{kindAddress, addr.String()}, Value: at, Shared: true})
	}
	if v.cluster {
		c.shared(single(addrCell(boxClusterIPs, addr)))
	}
	return nil
}

func (v *value) add(c cell, text string) { v.elements = append(v.elements, element{c, text}) }

// shared adds an object that other ports may want too.
func (c *compiler) shared(o object) {
	o.Shared = true
	c.out = append(c.out, o)
}

// action adds what the packets of one origin need.
func (c *compiler) action(v *value, s site, f *plan.Frontend, origin plan.Origin) error {
	a, outside := f.Actions[origin], f.Actions[plan.FromOutside].Pool
	switch {
	case a.Verdict == plan.Reject:
		v.add(s.in(boxDeny+origin.String()), verdictRefuse)
	case a.Verdict == plan.Drop:
		v.add(s.in(boxDeny+origin.String()), verdictDrop)
	case a.Verdict != plan.Forward:
	case a.Pool != outside && a.Masquerade && origin == plan.FromPod:
		return fmt.Errorf("ipvs: compile %s %s: pods are masqueraded to a pool of their own, which is not possible", c.port.PortName, f)
	case a.Pool != outside:
		mark, err := c.marks.get(markOwner{c.port.Key, a.Pool}, v.server.ServerKey)
		if err != nil {
			return err
		}
		c.marked[slot(a.Pool)] = mark
		c.masq[slot(a.Pool)] = c.masq[slot(a.Pool)] || a.Masquerade
		v.add(s.in(boxPool+origin.String()), hex(mark))
	case a.Masquerade:
		v.add(s.in(boxMasquerade+origin.String()), "")
	}
	return nil
}

// slot returns where a pool is in an array.
func slot(pool plan.Pool) plan.Pool { return min(pool, plan.LocalPool) }

// servers adds the virtual servers by mark, and what belongs to the port and to no site.
func (c *compiler) servers() {
	for _, pool := range []plan.Pool{plan.ClusterPool, plan.LocalPool} {
		mark := c.marked[slot(pool)]
		if mark == 0 {
			continue
		}
		k := ServerKey{Mark: mark, Family: c.port.Family}
		c.out = append(c.out, object{ID: serverID(k), Value: value{server: c.server(k, pool)}})
		if c.masq[slot(pool)] {
			c.out = append(c.out, single(cell{boxMasqueradeMarks, hex(mark)}))
		}
	}
	if n := c.port.HealthCheckNodePort; n != 0 {
		c.shared(single(cell{box(boxHealthChecks, c.port.Family), strconv.Itoa(int(n))}))
	}
}

// server returns a virtual server for a pool of the port.
func (c *compiler) server(k ServerKey, pool plan.Pool) *VirtualServer {
	servers := &c.real[slot(pool)]
	if *servers == nil {
		list := c.port.Endpoints(pool)
		*servers = make([]RealServer, 0, len(list))
		for _, e := range list {
			*servers = append(*servers, realServer(e))
		}
		slices.SortFunc(*servers, compareReal)
	}
	return &VirtualServer{
		ServerKey: k, Scheduler: c.balance.Scheduler, HashPort: c.balance.HashPort, HashFallback: c.balance.HashFallback,
		Persistence: wholeSeconds(c.port.AffinityTimeout), Connectionless: c.port.Protocol == corev1.ProtocolUDP, Real: *servers,
	}
}

func realServer(e *endpoints.Endpoint) RealServer {
	return RealServer{Addr: e.Addr, Weight: int(e.Weight)}
}
