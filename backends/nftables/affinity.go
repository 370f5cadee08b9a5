package nftables

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// An affinity makes the private objects of a Service port with ClientIP affinity. Their
// names begin with "affinity-" and a hash of the Service port, then:
//
//	clients        dynamic map, client -> endpoint id, written by packets
//	alive-POOL     map, endpoint id -> its chain: an endpoint that left has no id here
//	slots-POOL     map, slot -> the chain for a new client
//	pick-POOL      chain: look the client up, else choose a slot
//	fresh-ID       chain: forget what is remembered of the client, then endpoint-ID
//	endpoint-ID    chain: remember the client, translate
//	row-SHAPE      chain: choose a pick chain by origin, as for other ports
//
// Id and slot travel from rule to rule in the packet's priority, which is cleared before the
// packet leaves. That gives both maps a key with a named type: where the key is a mere number,
// of numgen, nft 1.1.7 mistakes its byte order in the map of a committed table, and adds and removes other
// elements than it was given.
type affinity struct {
	affinityNames
	c     compiler
	s     *portState
	proto protocol
}

// affinityNames makes the names of the private objects of a port; it is what they
// begin with.
type affinityNames string

const affinityPrefix = "affinity-"

// Suffixes of the names of private boxes.
const (
	suffixClients      = "-clients"
	suffixAliveCluster = "-alive-cluster"
	suffixAliveLocal   = "-alive-local"
	suffixSlotsCluster = "-slots-cluster"
	suffixSlotsLocal   = "-slots-local"
)

func namesOf(k plan.Key) affinityNames { return affinityNames(affinityPrefix + hashName(k)) }

func (n affinityNames) clients() string           { return string(n) + suffixClients }
func (n affinityNames) fresh(id uint32) string    { return string(n) + fmt.Sprintf("-fresh-%x", id) }
func (n affinityNames) endpoint(id uint32) string { return string(n) + fmt.Sprintf("-endpoint-%x", id) }

// idOfFresh is the reverse of the verdict that a slot has.
func (n affinityNames) idOfFresh(verdict string) (uint32, bool) {
	text, ok := strings.CutPrefix(verdict, gotoChain(string(n)+"-fresh-"))
	id, err := strconv.ParseUint(text, 16, 32)
	return uint32(id), ok && err == nil
}

// privateBox returns the box with a name that affinity made; ok is false for other names.
func privateBox(name string, clients int) (b box, ok bool) {
	b = box{name: name, value: verdictValue}
	switch {
	case !strings.HasPrefix(name, affinityPrefix):
		return b, false
	case strings.HasSuffix(name, suffixClients):
		return box{name: name, key: []field{fieldAddr}, value: numberValue, dynamic: true, size: clients}, true
	case strings.HasSuffix(name, suffixAliveCluster), strings.HasSuffix(name, suffixAliveLocal),
		strings.HasSuffix(name, suffixSlotsCluster), strings.HasSuffix(name, suffixSlotsLocal):
		b.key = []field{fieldNumber}
	}
	return b, b.key != nil
}

// affinity returns nil for a port without affinity, or without endpoints to choose from.
func (c compiler) affinity(s *portState) *affinity {
	if s.port.AffinityTimeout <= 0 || len(s.cluster)+len(s.local) == 0 {
		return nil
	}
	return &affinity{affinityNames: namesOf(s.port.Key), c: c, s: s, proto: protocolOf(s.port.Protocol)}
}

// A pool is one of the pools of a port with affinity.
type pool struct {
	alive, slots, pick string
	slotted            []*endpoints.Endpoint
}

func (a *affinity) clusterPool() pool {
	n := string(a.affinityNames)
	return pool{alive: n + suffixAliveCluster, slots: n + suffixSlotsCluster, pick: n + "-pick-cluster", slotted: a.s.cluster}
}

func (a *affinity) localPool() pool {
	n := string(a.affinityNames)
	return pool{alive: n + suffixAliveLocal, slots: n + suffixSlotsLocal, pick: n + "-pick-local", slotted: a.s.local}
}

// private adds everything but the rows.
func (a *affinity) private(p *program) {
	a.addBox(p, a.clients())
	for _, dst := range slices.SortedFunc(maps.Keys(a.s.ids), netip.AddrPort.Compare) {
		p.chains = append(p.chains, a.endpointChains(dst, a.s.ids[dst])...)
	}
	for _, pl := range []pool{a.clusterPool(), a.localPool()} {
		if len(pl.slotted) > 0 {
			a.addPool(p, pl)
		}
	}
}

func (a *affinity) addBox(p *program, name string) {
	b, _ := privateBox(name, a.c.affinityClients)
	p.boxes = append(p.boxes, b)
}

func (a *affinity) endpointChains(dst netip.AddrPort, id uint32) []chain {
	return []chain{
		{name: a.endpoint(id), rules: []string{
			forgetPriority,
			a.c.f.rememberClient(a.clients(), id, a.s.port.AffinityTimeout),
			translateTo(a.proto, dst), // a rule of its own: update fails when the map is full
		}},
		{name: a.fresh(id), rules: []string{a.c.f.forgetClient(a.clients(), id), gotoChain(a.endpoint(id))}},
	}
}

func (a *affinity) addPool(p *program, pl pool) {
	a.addBox(p, pl.alive)
	a.addBox(p, pl.slots)
	for i, e := range pl.slotted {
		id := a.s.ids[e.Addr]
		p.elements = append(p.elements,
			element{id: elementID{pl.alive, key{n: id}}, value: value{verdict: gotoChain(a.endpoint(id))}, comment: e.String()},
			element{id: elementID{pl.slots, key{n: uint32(i)}}, value: value{verdict: gotoChain(a.fresh(id))}})
	}
	p.chains = append(p.chains, chain{name: pl.pick, rules: []string{
		forgetPriority, // what the packet came with could look like an id
		a.c.f.recallClient(a.clients()),
		dispatchPriority(pl.alive),
		chooseSlot(len(pl.slotted)) + " " + dispatchPriority(pl.slots),
		forgetPriority + " " + dispatchPriority(pl.slots), // for a packet between two commits, as in the shared pick chains
	}})
}

// row returns the chain that does what sh says, and adds it if it is new.
func (a *affinity) row(p *program, sh plan.Shape) string {
	cluster, local := a.clusterPool().pick, a.localPool().pick
	if letter, ok := sh.Uniform(false); ok && letter == plan.LetterCluster {
		return cluster
	} else if ok && letter == plan.LetterLocal {
		return local
	}
	name := string(a.affinityNames) + "-row-" + string(sh[:])
	if !slices.ContainsFunc(p.chains, func(c chain) bool { return c.name == name }) {
		p.chains = append(p.chains, chain{name: name, rules: a.c.byOrigin(a.c.f, sh, func(letter byte) string {
			return a.c.forward(letter, cluster, local)
		})})
	}
	return name
}

// assignIDs gives every endpoint a number that is its own in the port: the one it
// had, else one computed from its address, so that a restart finds the same. Old may be
// what somebody left in the kernel: an id that two have is kept by one.
func assignIDs(old map[netip.AddrPort]uint32, pools ...[]*endpoints.Endpoint) map[netip.AddrPort]uint32 {
	ids := make(map[netip.AddrPort]uint32)
	taken := make(map[uint32]bool)
	var all []netip.AddrPort
	for _, e := range slices.Concat(pools...) {
		all = append(all, e.Addr)
	}
	for _, dst := range all {
		if id, ok := old[dst]; ok && usableID(id) && (!taken[id] || ids[dst] == id) {
			ids[dst], taken[id] = id, true
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	for _, dst := range all {
		if _, ok := ids[dst]; ok {
			continue
		}
		id := idOf(dst)
		for taken[id] || !usableID(id) {
			id++
		}
		ids[dst], taken[id] = id, true
	}
	return ids
}

func idOf(dst netip.AddrPort) uint32 {
	h := fnv.New32a()
	text, _ := dst.MarshalBinary() // never fails
	_, _ = h.Write(text)
	return h.Sum32()
}

// usableID rules out the two priorities that have names in nft, the first of which
// also means that a packet has none.
func usableID(id uint32) bool { return id != 0 && id != 1<<32-1 }

// hashName makes a name that is unique for a Service port.
func hashName(k plan.Key) string {
	return hashText(k.Namespace + "/" + k.Name + "/" + string(k.Protocol) + "/" + k.Port)
}
