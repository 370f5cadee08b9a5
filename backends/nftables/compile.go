package nftables

import (
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A portState is what is remembered of a Service port: its plan and what history
// decided. From it everything that the port has in the kernel can be computed again.
type portState struct {
	port           *plan.Port
	cluster, local []*endpoints.Endpoint     // by slot, empty if the pool is not used; may be those of port
	ids            map[netip.AddrPort]uint32 // with affinity only
}

// A program is what one Service port has in the table of its family.
type program struct {
	shared   []shared    // chains that must exist
	chains   []chain     // of this port alone, those that are named by others first
	boxes    []box       // of this port alone
	elements []element   // of this port alone
	counted  []element   // other ports may have the same
	unowned  []elementID // in the kernel; to be removed unless some port counts them
}

// assignSlots returns the state of p, as near to old as possible. Old may be nil.
func assignSlots(old *portState, p *plan.Port) *portState {
	if old == nil {
		old = &portState{}
	}
	s := &portState{port: p}
	cluster, local := usedPools(p)
	if cluster {
		s.cluster = reslot(old.cluster, p.Cluster)
	}
	if local {
		s.local = reslot(old.local, p.Local)
	}
	if p.AffinityTimeout > 0 {
		s.ids = assignIDs(old.ids, s.cluster, s.local)
	}
	return s
}

func usedPools(p *plan.Port) (cluster, local bool) {
	for _, fe := range p.Frontends {
		s := fe.Forwarding()
		cluster = cluster || s.UsesCluster()
		local = local || s.UsesLocal()
	}
	return cluster && len(p.Cluster) > 0, local && len(p.Local) > 0
}

// A compiler turns port states into programs.
type compiler struct {
	*layout
	f *family
}

// compile returns what s has in the kernel; nothing if s is nil.
func (c compiler) compile(s *portState) *program {
	p := &program{}
	if s == nil {
		return p
	}
	pc := portCompiler{compiler: c, s: s, p: p, affine: c.affinity(s)}
	if pc.affine != nil {
		pc.affine.private(p)
	}
	for i := range s.port.Frontends {
		pc.frontend(&s.port.Frontends[i])
	}
	return p
}

// A portCompiler compiles one Service port.
type portCompiler struct {
	compiler
	s      *portState
	p      *program  // so far
	affine *affinity // nil without
}

func (c portCompiler) frontend(fe *plan.Frontend) {
	at := target{nodePort: fe.Kind == plan.NodePort, proto: protocolOf(c.s.port.Protocol), comment: comment(c.s.port.PortName.String())}
	at.key = key{addr: fe.Addr, proto: at.proto, port: fe.Port}
	if fe.Kind == plan.ClusterIP {
		c.p.counted = append(c.p.counted, element{id: elementID{boxClusterIPs, key{addr: fe.Addr}}})
	}
	at.verdict(c.p, boxServices, boxNodePorts, c.dispatch(fe, at))
	if c.affine == nil {
		at.pools(c.p, c.s, fe.Forwarding())
	}
	at.verdict(c.p, boxNoEndpointIPs, boxNoEndpointPorts, c.denial(fe))
	if fe.Restricted {
		at.restrict(c.p, fe.Allow)
	}
}

// dispatch returns the verdict with which a frontend's packets begin, "" for none.
func (c portCompiler) dispatch(fe *plan.Frontend, at target) string {
	sh := fe.Forwarding()
	if !sh.Forwards() {
		if at.nodePort {
			return ""
		}
		return ruleReturn // an exact address beats a NodePort with the same number
	}
	if c.affine != nil {
		return gotoChain(c.affine.row(c.p, sh))
	}
	if letter, ok := sh.Uniform(false); ok && letter == plan.LetterCluster {
		return gotoChain(place{nodePort: at.nodePort}.pick())
	} else if ok && letter == plan.LetterLocal {
		return gotoChain(place{at.nodePort, true}.pick())
	}
	row := shared{kind: rowChain, shape: sh}
	row.nodePort = at.nodePort
	c.p.shared = append(c.p.shared, row)
	return gotoChain(row.name())
}

// denial returns the verdict for packets that were not translated, "" for none. If it is the same for all origins
// whose packets are not forwarded, the others need no exception: theirs were translated. But the kernel does not record as a
// translation what changes nothing, to an endpoint at the very address and port of the frontend.
func (c portCompiler) denial(fe *plan.Frontend) string {
	sh := fe.Denying()
	if !sh.Has(plan.LetterReject, plan.LetterDrop) {
		return ""
	}
	if letter, ok := sh.Uniform(!c.s.port.HasEndpointAt(fe)); ok {
		return deny(letter)
	}
	chain := shared{kind: denyChain, shape: sh}
	c.p.shared = append(c.p.shared, chain)
	return gotoChain(chain.name())
}

// A target is where the elements of one frontend go.
type target struct {
	nodePort bool
	proto    protocol
	key      key
	comment  string
}

func (t target) box(address, nodePort string) string {
	if t.nodePort {
		return nodePort
	}
	return address
}

// verdict adds an element with a verdict, nothing if it is "".
func (t target) verdict(p *program, address, nodePort, verdict string) {
	if verdict != "" {
		id := elementID{t.box(address, nodePort), t.key}
		p.elements = append(p.elements, element{id: id, value: value{verdict: verdict}, comment: t.comment})
	}
}

// pools adds the elements of the pools that sh uses.
func (t target) pools(p *program, s *portState, sh plan.Shape) {
	if sh.UsesCluster() {
		t.slots(p, false, s.cluster)
	}
	if sh.UsesLocal() {
		t.slots(p, true, s.local)
	}
}

// slots adds the elements from slots to endpoints for one pool, and its size.
func (t target) slots(p *program, local bool, pool []*endpoints.Endpoint) {
	if len(pool) == 0 {
		return
	}
	pick := shared{kind: pickChain, place: place{t.nodePort, local}, proto: t.proto, size: len(pool)}
	p.shared = append(p.shared, pick)
	k := key{addr: t.key.addr, port: t.key.port}
	p.elements = slices.Grow(p.elements, len(pool)+1)
	for i, e := range pool {
		k.n = uint32(pick.offset() + i)
		p.elements = append(p.elements, element{id: elementID{boxEndpoints(t.proto, t.nodePort), k}, value: value{dst: e.Addr}})
	}
	size := element{id: elementID{pick.sizes(), t.key}, value: value{number: uint32(len(pool))}}
	p.elements = append(p.elements, size)
}

// restrict adds the allowed sources of a frontend.
func (t target) restrict(p *program, allow []netip.Prefix) {
	p.elements = append(p.elements, element{id: elementID{t.box(boxRestricted, boxRestrictedPorts), t.key}, comment: t.comment})
	for _, src := range allow {
		k := t.key
		k.src = src
		p.elements = append(p.elements, element{id: elementID{t.box(boxAllowed, boxAllowedPorts), k}})
	}
}
