package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A record is what is in the kernel of ours.
type record struct {
	sites   map[site]uint32             // all that the table says are ours, with the mark where there is one
	bound   map[netip.Addr]netip.Addr   // addresses that we bound, and their sources
	cluster map[netip.Addr]bool         // ClusterIPs, also those that stay for old connections only
	servers map[ServerKey]VirtualServer // everybody's
}

// read reads the record. The table names what is ours before it is made and until it is
// gone, so nothing is overlooked, and no virtual server of somebody else is taken for ours.
func (b *Backend) read(ctx context.Context) (*record, error) {
	rec, err := b.readOurs(ctx)
	if err != nil || len(rec.sites) == 0 {
		return rec, err
	}
	for _, f := range families() {
		if err := b.readTable(ctx, rec, f); err != nil {
			return nil, err
		}
	}
	return rec, nil
}

// readOurs reads only what is needed to tell what is ours.
func (b *Backend) readOurs(ctx context.Context) (*record, error) {
	rec := &record{sites: make(map[site]uint32), cluster: make(map[netip.Addr]bool), servers: make(map[ServerKey]VirtualServer)}
	err := b.readFrontends(ctx, rec)
	if err != nil {
		return nil, err
	}
	if rec.bound, err = b.links.bound(); err != nil {
		return nil, err
	}
	list, err := b.kernel.Servers()
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		rec.servers[v.ServerKey] = v
	}
	return rec, nil
}

// readFrontends asks nft once if there is no table.
func (b *Backend) readFrontends(ctx context.Context, rec *record) error {
	_, err := b.nft.List(ctx, "chains")
	if knftables.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("nftables: list chains: %w", err)
	}
	note := func(_ *knftables.Element, s site) { rec.sites[s] = 0 }
	return errors.Join(
		b.readSites(ctx, box(boxFrontends, corev1.IPv4Protocol), note),
		b.readSites(ctx, box(boxFrontends, corev1.IPv6Protocol), note))
}

// readTable reads what else the table says of one family.
func (b *Backend) readTable(ctx context.Context, rec *record, f corev1.IPFamily) error {
	mark := func(e *knftables.Element, s site) {
		var m uint64
		if len(e.Value) == 1 {
			m, _ = strconv.ParseUint(e.Value[0], 0, 32)
		}
		rec.sites[s] = max(rec.sites[s], uint32(m))
	}
	leaver := func(e *knftables.Element, s site) {
		if len(e.Value) == 1 && e.Value[0] == verdictDrop {
			rec.cluster[s.addr.Addr()] = true
		}
	}
	return errors.Join(
		b.readSites(ctx, box(boxPool+plan.FromPod.String(), f), mark),
		b.readSites(ctx, box(boxPool+plan.FromNode.String(), f), mark),
		b.readSites(ctx, box(boxDeny+plan.FromPod.String(), f), leaver),
		b.list(ctx, box(boxClusterIPs, f), func(e *knftables.Element) {
			if a, err := netip.ParseAddr(e.Key[0]); err == nil {
				rec.cluster[a] = true
			}
		}))
}

func (b *Backend) readSites(ctx context.Context, box string, note func(*knftables.Element, site)) error {
	return b.list(ctx, box, func(e *knftables.Element) {
		if s, ok := parseSite(e.Key); ok {
			note(e, s)
		}
	})
}

// list calls note for every element of a set or map; there are none in one that does not exist.
func (b *Backend) list(ctx context.Context, box string, note func(*knftables.Element)) error {
	kind := "set"
	if isMap(box) {
		kind = "map"
	}
	found, err := b.nft.ListElements(ctx, kind, box)
	if knftables.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("nftables: list %s: %w", box, err)
	}
	for _, e := range found {
		note(e)
	}
	return nil
}

// ours returns the virtual servers in the kernel that we made.
func (b *Backend) ours(rec *record) []VirtualServer {
	var out []VirtualServer
	for k, v := range rec.servers {
		_, known := rec.sites[site{k.Addr, k.Protocol}]
		_, remembered := b.servers[k]
		_, bound := rec.bound[k.Addr.Addr()]
		if known || remembered || b.isOurs(k.Mark) || k.Mark == 0 && bound {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b VirtualServer) int { return a.Compare(b.ServerKey) })
	return out
}

// adopt makes everything equal p, whatever is there.
func (r *round) adopt(p *plan.Plan) error {
	rec, err := r.read(r.ctx)
	if err != nil {
		return err
	}
	others, err := r.links.others()
	if err != nil {
		return err
	}
	if r.opts.Timeouts != (Timeouts{}) {
		if err := r.kernel.SetTimeouts(r.opts.Timeouts); err != nil {
			return err
		}
	}
	ours := r.ours(rec)
	old := r.state
	r.state = newState()
	r.node = r.newNode(p, others)
	r.recallMarks(p, &old)
	r.keepMarks(p, rec)
	var steps []step
	for port := range p.All() {
		next, err := r.prepare(port)
		if err != nil {
			r.bad[port.Key] = err
			if next = old.ports[port.Key]; next != nil {
				next.held = true // stays as it was
			}
		}
		if next != nil {
			steps = append(steps, step{key: port.Key, next: next})
		}
	}
	r.begin(steps)
	r.count(r.node.configElements(), 1)
	r.inherit(ours, rec)
	r.freeUnused()
	if err := r.replace(rec); err != nil {
		return err
	}
	return r.unbindStale(rec)
}

// recallMarks gives pools the marks that they had in this process: a port that could not be written is still
// what those say, although the site by which the table would tell may be another port's by now.
func (r *round) recallMarks(p *plan.Plan, old *state) {
	for owner, mark := range old.marks {
		if p.Port(owner.key) != nil {
			r.Backend.take(owner, mark)
		}
	}
}

// freeUnused gives back recalled marks that no virtual server has or needs any more.
func (r *round) freeUnused() {
	for owner, mark := range r.Backend.marks {
		k := ServerKey{Mark: mark, Family: owner.key.Family}
		_, wanted := r.marks[k]
		if _, exists := r.servers[k]; !exists && !wanted {
			r.free(mark)
		}
	}
}

// keepMarks gives pools the marks that they have in the table, and no pool one that is still in
// use for another.
func (r *round) keepMarks(p *plan.Plan, rec *record) {
	for s, mark := range rec.sites {
		if mark == 0 || !r.isOurs(mark) || r.taken(mark) {
			continue
		}
		port, f := p.Lookup(s.addr, s.proto)
		if f == nil {
			port, f = p.LookupNodePort(ip.Family(s.addr.Addr()), s.addr.Port(), s.proto)
		}
		if f == nil {
			continue
		}
		owner := markOwner{port.Key, f.Actions[plan.FromNode].Pool}
		if _, has := r.Backend.marks[owner]; !has {
			r.Backend.take(owner, mark)
		}
	}
	for k := range rec.servers {
		if r.isOurs(k.Mark) && !r.taken(k.Mark) {
			r.owners[k.Mark] = markOwner{}
		}
	}
}

// inherit adds what is in the kernel of ours: what is wanted will be compared, the rest drains.
func (r *round) inherit(ours []VirtualServer, rec *record) {
	for _, v := range ours {
		r.servers[v.ServerKey] = v
		if v.Mark != 0 {
			if _, wanted := r.marks[v.ServerKey]; !wanted {
				r.marks[v.ServerKey] = nil
			}
			continue
		}
		s := site{v.Addr, v.Protocol}
		if r.touched[s] {
			continue
		}
		r.touched[s] = true
		_, bound := rec.bound[s.addr.Addr()]
		r.sites[s] = want{site: s, bound: bound, cluster: rec.cluster[s.addr.Addr()]}
		r.leave(s)
	}
	r.countLeavers()
	r.abandon()
	// Somebody else's virtual server at an address that a Service has now: there can be one only.
	for s := range r.touched {
		if v, exists := rec.servers[s.key()]; exists {
			r.servers[s.key()] = v
		}
	}
}

// replace writes the table anew, in one transaction, and everything else where it differs.
func (r *round) replace(rec *record) error {
	if err := r.ensureMarks(); err != nil {
		return err
	}
	added, _ := r.diff()
	tx := r.nft.NewTransaction()
	r.node.declare(tx)
	for _, e := range added {
		tx.Add(e.object())
	}
	if err := r.run(tx); err != nil {
		return err
	}
	return r.follow(slices.DeleteFunc(added, func(e element) bool { return r.isBound(e, rec) }))
}

// isBound reports whether an element stands for an address that is bound already,
// with the right source.
func (r *round) isBound(e element, rec *record) bool {
	a, err := netip.ParseAddr(e.key)
	source, ok := rec.bound[a]
	return err == nil && ok && source == r.node.source(a)
}

// unbindStale unbinds what nobody wants.
func (r *round) unbindStale(rec *record) error {
	for a := range rec.bound {
		if r.elements[element{box: box(boxBound, ip.Family(a)), key: a.String()}] > 0 {
			continue
		}
		if err := r.links.unbind(a); err != nil {
			return err
		}
		r.last.Written++
		r.last.Commits++
	}
	return r.links.removeOld()
}

// Cleanup removes the virtual servers, the table and the routes that any Backend with the same
// options ever made, and nothing else. Connections through them are cut. A kernel without IPVS has no
// virtual servers.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base = nil
	if err := b.cleanup(ctx); err != nil {
		return fmt.Errorf("ipvs: clean up: %w", err)
	}
	return nil
}

func (b *Backend) cleanup(ctx context.Context) error {
	if err := b.openTable(ctx); err != nil {
		return err
	}
	err := b.openKernel()
	switch {
	case err == nil:
		err = b.removeServers(ctx)
	case errors.Is(err, errors.ErrUnsupported):
		err = nil
	}
	if err != nil {
		return err
	}
	b.state = newState()
	tx := b.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := b.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	bound, err := b.links.bound()
	if err != nil {
		return err
	}
	for a := range bound {
		if err := b.links.unbind(a); err != nil {
			return err
		}
	}
	return b.links.removeOld()
}

func (b *Backend) removeServers(ctx context.Context) error {
	rec, err := b.readOurs(ctx)
	if err != nil {
		return err
	}
	for _, v := range b.ours(rec) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.reconciler.Remove(v.ServerKey); err != nil {
			return err
		}
	}
	return nil
}
