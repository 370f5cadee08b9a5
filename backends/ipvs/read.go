package ipvs

import (
	"context"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A mode is what the engine does. The dialect is asked for a list in each, but not for the same one.
type mode uint8

const (
	// syncing replaces the table: the list has its elements and not its rules. What is below the engine is read anew.
	syncing mode = iota

	// checking compares, and changes nothing. What drains is not the engine's, so the list does not have it.
	checking

	// cleaning removes all that is ours, at once.
	cleaning
)

// A record is what is in the kernel. The table names what is ours before it is made and until it is
// gone, so nothing is overlooked, and no virtual server of somebody else is taken for ours.
type record struct {
	table   contents
	bound   map[netip.Addr]netip.Addr // addresses and their sources
	machine []netip.Addr              // addresses that the machine has without us, sorted
	servers []VirtualServer           // ours, with real servers
}

// List is part of [engine.Dialect].
func (d *dialect) List(ctx context.Context) (iter.Seq2[id, value], error) {
	rec, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[id]value)
	if rec.table.chains != nil && d.mode == checking {
		found[id{kind: kindRules}] = value{chains: rec.table.chains}
	}
	for a, source := range rec.bound {
		_, moved := slices.BinarySearchFunc(rec.machine, a, netip.Addr.Compare)
		found[id{kindAddress, a.String()}] = value{addr: a, routed: true, source: source, moved: moved}
	}
	cluster := rec.table.clusterIPs()
	for _, v := range rec.servers {
		a := v.Addr.Addr()
		_, bound := rec.bound[a]
		found[serverID(v.ServerKey)] = value{server: &v, bound: bound, cluster: cluster[a]}
	}
	if d.opts.Timeouts != (Timeouts{}) && d.kernel != nil {
		t, err := d.kernel.Timeouts()
		if err != nil {
			return nil, err
		}
		found[id{kind: kindTimeouts}] = value{timeouts: t.where(d.opts.Timeouts)}
	}
	for _, e := range rec.table.elements {
		at := e.owner()
		v := found[at]
		v.elements = append(v.elements, e)
		if at.kind == kindAddress {
			v.addr, _ = ip.ParseAddr(at.name)
		}
		found[at] = v
	}
	for _, v := range found {
		sortElements(v.elements)
	}
	switch d.mode {
	case syncing:
		d.renew(rec)
	case checking:
		d.leaveOut(found)
	case cleaning:
	}
	return maps.All(found), nil
}

// where returns t where o is not zero.
func (t Timeouts) where(o Timeouts) Timeouts {
	for _, pair := range [][2]*time.Duration{{&t.TCP, &o.TCP}, {&t.TCPFin, &o.TCPFin}, {&t.UDP, &o.UDP}} {
		if *pair[1] == 0 {
			*pair[0] = 0
		}
	}
	return t
}

// read reads the kernel.
func (d *dialect) read(ctx context.Context) (*record, error) {
	rec := &record{}
	var err error
	if rec.table, err = d.nft.read(ctx); err != nil {
		return nil, err
	}
	if rec.bound, err = d.links.bound(); err != nil {
		return nil, err
	}
	if rec.machine, err = d.links.others(); err != nil {
		return nil, err
	}
	slices.SortFunc(rec.machine, netip.Addr.Compare)
	if d.kernel == nil { // a Cleanup without IPVS
		return rec, nil
	}
	all, err := d.kernel.Servers()
	if err != nil {
		return nil, err
	}
	named := rec.table.frontends()
	for _, v := range all {
		_, known := d.servers[v.ServerKey]
		_, bound := rec.bound[v.Addr.Addr()]
		if !known && !named[v.ServerKey] && !d.marks.isOurs(v.Mark) && (v.Mark != 0 || !bound) {
			continue
		}
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		if v.Real, err = d.reconciler.realServers(v.ServerKey); err != nil {
			return nil, err
		}
		rec.servers = append(rec.servers, v)
	}
	return rec, nil
}

// renew takes over what was read as all there is below the engine.
func (d *dialect) renew(rec *record) {
	d.machine = rec.machine
	d.marks.recall(rec.table.poolMarks(), rec.servers)
	maps.DeleteFunc(d.schedulers, func(_ string, err error) bool { return err != nil }) // it may be loaded by now
	d.placed, d.leavers = make(map[cell]string), make(map[ServerKey]*leaver)
	for _, e := range rec.table.elements {
		d.placed[e.cell] = e.value
	}
	d.wanted, d.kept = make(map[netip.Addr]bool), make(map[netip.Addr]int)
	for a := range rec.bound {
		d.wanted[a] = true
	}
	d.servers = make(map[ServerKey]VirtualServer, len(rec.servers))
	for _, v := range rec.servers {
		v.Real = nil
		d.servers[v.ServerKey] = v
	}
}

// leaveOut takes what drains from what was found.
func (d *dialect) leaveOut(found map[id]value) {
	for k := range d.leavers {
		delete(found, serverID(k))
	}
	for a := range d.kept {
		c := addrCell(boxGoneIPs, a)
		delete(found, id{c.box, c.key})
		if !d.wanted[a] {
			delete(found, id{kindAddress, a.String()})
		}
	}
	for _, v := range found {
		if v.server != nil {
			v.server.Real = slices.DeleteFunc(v.server.Real, func(r RealServer) bool { _, drains := r.Draining(); return drains })
		}
	}
}

// owner returns of which object an element is a part.
func (e element) owner() id {
	if k, ok := e.server(); ok {
		return serverID(k)
	}
	for _, f := range families() {
		if e.box == box(boxBound, f) {
			return id{kindAddress, e.key}
		}
	}
	return id{e.box, e.key}
}

// contents are what was found of the table, nothing if there is none.
type contents struct {
	chains   map[string]int // the number of rules of each
	elements []element
}

// frontends returns the virtual servers that are ours.
func (c contents) frontends() map[ServerKey]bool {
	out := make(map[ServerKey]bool)
	for e := range c.in(boxFrontends) {
		if k, ok := e.server(); ok {
			out[k] = true
		}
	}
	return out
}

// clusterIPs returns the ClusterIPs, also those that stay for old connections only.
func (c contents) clusterIPs() map[netip.Addr]bool {
	out := make(map[netip.Addr]bool)
	for _, name := range []string{boxClusterIPs, boxGoneIPs} {
		for e := range c.in(name) {
			if a, err := netip.ParseAddr(e.key); err == nil {
				out[a] = true
			}
		}
	}
	return out
}

// poolMarks returns the mark of each site that has one.
func (c contents) poolMarks() map[ServerKey]uint32 {
	out := make(map[ServerKey]uint32)
	for _, o := range []plan.Origin{plan.FromPod, plan.FromNode} {
		for e := range c.in(boxPool + o.String()) {
			k, ok := e.server()
			if mark, err := strconv.ParseUint(e.value, 0, 32); ok && err == nil {
				out[k] = max(out[k], uint32(mark))
			}
		}
	}
	return out
}

// in yields the elements of the sets or maps of both families with a name.
func (c contents) in(name string) iter.Seq[element] {
	return func(yield func(element) bool) {
		for _, e := range c.elements {
			if (e.box == name+"-4" || e.box == name+"-6") && !yield(e) {
				return
			}
		}
	}
}
