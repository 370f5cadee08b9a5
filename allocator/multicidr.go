package allocator

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ip"
)

// A MultiCIDR hands out the addresses of a changing set of ServiceCIDRs. The
// truth about who holds what is in a [Store]; a MultiCIDR remembers what it has
// seen of it to know which addresses are worth trying.
//
// Ranges may overlap or be named twice. An address is usable if a range that is
// ready has it as a usable one, and picks are uniform over the union of these,
// outside all static bands first. A range is ready if one ServiceCIDR that names
// it is.
//
// It needs [NewMultiCIDR], and is safe for concurrent use. Its lock is not held
// while the store works. Operations cost O(log n) and O(number of ranges), except
// where a method says otherwise; each address in use takes about 200 bytes.
type MultiCIDR struct {
	store Store
	opts  Options

	refresh sync.Mutex // one Refresh at a time

	mu       sync.Mutex
	objects  map[string]cidrObject // by name of the ServiceCIDR
	families map[corev1.IPFamily]*family
}

// NewMultiCIDR returns a MultiCIDR without any range, which knows no address in
// use: call [MultiCIDR.Refresh] once the ranges are set. Without a store, all that
// needs one is an error.
func NewMultiCIDR(store Store, opts Options) *MultiCIDR {
	if opts.Rand == nil {
		opts.Rand = rand.Uint64N
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &MultiCIDR{
		store:   orNone(store),
		opts:    opts,
		objects: map[string]cidrObject{},
		families: map[corev1.IPFamily]*family{
			corev1.IPv4Protocol: newFamily(),
			corev1.IPv6Protocol: newFamily(),
		},
	}
}

// SetServiceCIDR takes the current version of a ServiceCIDR. It reports whether
// anything that is used has changed, and which entries cannot serve: those are
// left out. An object without any that can is as one that is not there. It costs
// O(addresses in use) if something changed.
//
// A ServiceCIDR that is being deleted, or whose Ready condition is there and not
// true, is not ready.
func (m *MultiCIDR) SetServiceCIDR(obj *networkingv1.ServiceCIDR) (bool, field.ErrorList) {
	o, problems := newCIDRObject(obj)
	if len(o.ranges) == 0 {
		return obj != nil && m.DeleteServiceCIDR(obj.Name), problems
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.objects[obj.Name]; ok && old.equal(o) {
		return false, problems
	}
	m.objects[obj.Name] = o
	m.rebuild()
	return true, problems
}

// DeleteServiceCIDR forgets a ServiceCIDR; an unknown one is not a change.
// Addresses in use stay in use.
func (m *MultiCIDR) DeleteServiceCIDR(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[name]; !ok {
		return false
	}
	delete(m.objects, name)
	m.rebuild()
	return true
}

// rebuild makes the segments of both families anew; mu must be held.
func (m *MultiCIDR) rebuild() {
	ranges := map[corev1.IPFamily]map[netip.Prefix]coverage{
		corev1.IPv4Protocol: {}, corev1.IPv6Protocol: {},
	}
	for _, o := range m.objects {
		for _, r := range o.ranges {
			of := ranges[ip.Family(r.prefix.Addr())]
			of[r.prefix] = coverage{r, o.ready || of[r.prefix].ready}
		}
	}
	for name, f := range m.families {
		f.ranges = f.ranges[:0]
		for _, r := range ranges[name] {
			f.ranges = append(f.ranges, r)
		}
		slices.SortFunc(f.ranges, func(a, b coverage) int { return ip.ComparePrefixes(a.prefix, b.prefix) })
		f.rebuild()
	}
}

// Observe takes a record of the store as a watch delivers it. It is level
// triggered: the same record twice is harmless. Records and calls of
// [MultiCIDR.Forget] must come in the order of the watch, which may be late: a
// record of another owner than the one of a newer claim here changes nothing.
func (m *MultiCIDR) Observe(r Record) {
	if !r.Addr.IsValid() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(r.Addr)
	for _, c := range f.creations[r.Addr] {
		c.shown = c.shown || c.owner.Same(r.Owner)
	}
	if f.newer(r) {
		return // the watch is still before our claim
	}
	f.learn(r.Addr, known{owner: r.Owner, foreign: r.Foreign, shown: true})
}

// Forget says that the store has no entry of addr any more, as a watch does.
//
// If this MultiCIDR has claimed addr, and neither Observe nor Refresh has shown
// that since, the watch may be late. The address then counts as in use until one
// of them shows it, or for a minute.
func (m *MultiCIDR) Forget(addr netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(addr)
	if k, ok := f.known[addr]; ok && k.unconfirmed() {
		f.doubt(addr, k, m.opts.Now().Add(max(collisionTime, m.opts.Quarantine)))
		return
	}
	m.forget(addr)
}

// forget starts the quarantine of addr, unless it runs already; mu must be held.
func (m *MultiCIDR) forget(addr netip.Addr) {
	f := m.family(addr)
	m.expire(f)
	until := time.Time{}
	if m.opts.Quarantine > 0 {
		until = m.opts.Now().Add(m.opts.Quarantine)
	}
	f.unlearn(addr, until)
}

// expire forgets what has come to its end; mu must be held. Whatever adds to what
// ends calls it, so that nothing piles up where nobody picks.
func (m *MultiCIDR) expire(f *family) {
	if f.ends.len() > 0 {
		f.expire(m.opts.Now())
	}
}

// Refresh lists the store and replaces what is remembered, but for what changed
// meanwhile. Programs that call Observe and Forget need it once; others whenever
// they want to know what other processes did. The error is that of the store, and
// nothing has changed then.
func (m *MultiCIDR) Refresh(ctx context.Context) error {
	m.refresh.Lock()
	defer m.refresh.Unlock()
	m.noteChanges(true)
	defer m.noteChanges(false) // also if the store panics
	records, err := m.store.List(ctx)
	if err != nil {
		return &Error{Op: "refresh", Value: "addresses", Err: err}
	}
	listed := map[corev1.IPFamily]map[netip.Addr]known{corev1.IPv4Protocol: {}, corev1.IPv6Protocol: {}}
	for _, r := range records {
		if r.Addr.IsValid() {
			listed[ip.Family(r.Addr)][r.Addr] = known{owner: r.Owner, foreign: r.Foreign, shown: true}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, f := range m.families {
		f.replace(listed[name])
	}
	return nil
}

// noteChanges makes every family note what changes from now on, or no longer.
func (m *MultiCIDR) noteChanges(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		f.changes = nil
		if on {
			f.changes = map[netip.Addr]change{}
		}
	}
}

// family returns the family of addr, one without anything if addr is none.
func (m *MultiCIDR) family(addr netip.Addr) *family { return m.named(ip.Family(addr)) }

// named returns the family of that name, one without anything if there is none.
func (m *MultiCIDR) named(ipFamily corev1.IPFamily) *family {
	if f := m.families[ipFamily]; f != nil {
		return f
	}
	return newFamily()
}

// A RangeStatus counts one range of a [MultiCIDR]. Ranges that overlap count
// their common addresses both.
type RangeStatus struct {
	Prefix netip.Prefix
	Ready  bool
	Stats  Stats
}

// Ranges returns all ranges of a family, sorted by address, the wider one first.
func (m *MultiCIDR) Ranges(ipFamily corev1.IPFamily) []RangeStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.families[ipFamily]
	if f == nil {
		return nil
	}
	m.expire(f)
	out := make([]RangeStatus, 0, len(f.ranges))
	for _, r := range f.ranges {
		out = append(out, RangeStatus{r.prefix, r.ready, f.stats(r.span)})
	}
	return out
}

// DeletionGrace is how long after its deletion was asked for a ServiceCIDR must
// stay even if [MultiCIDR.CanDelete] says yes, so that every API server has seen
// that the range is no longer ready.
const DeletionGrace = 10 * time.Second

// CanDelete reports whether the ServiceCIDR can go: whether each address in use
// of its ranges, foreign ones aside, is in a range of another ServiceCIDR. Others
// that are being deleted themselves do not count, and an address that is on its
// way to the store does. It costs O(addresses in use). An unknown name can go.
//
// It is as good as what was heard of the store: without a watch, call Refresh
// first.
func (m *MultiCIDR) CanDelete(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var others []prefixRange
	for other, o := range m.objects {
		if other != name && !o.terminating {
			others = append(others, o.ranges...)
		}
	}
	for _, r := range m.objects[name].ranges {
		needs := func(addr netip.Addr) bool { return usable([]prefixRange{r}, addr) && !usable(others, addr) }
		f := m.family(r.prefix.Addr())
		for addr, k := range f.known {
			if !k.foreign && k.state != cooling && needs(addr) {
				return false
			}
		}
		for addr := range f.creations {
			if needs(addr) {
				return false
			}
		}
	}
	return true
}

// usable reports whether one of ranges has addr as a usable address.
func usable(ranges []prefixRange, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r prefixRange) bool {
		_, ok := r.span.number(addr)
		return ok
	})
}
