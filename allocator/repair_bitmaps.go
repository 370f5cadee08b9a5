package allocator

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// LeakPasses is in which pass in a row a value that is held, and that no Service
// lists, is taken for a leak: pools do not know since when a value is held.
const LeakPasses = 3

// Suspects counts in how many passes in a row a value looked like a leak. A pass
// takes those of the pass before it and returns the next ones. Passes should be
// minutes apart; API servers take three.
type Suspects[T comparable] map[T]int

// A PortRepair is what is known about the node ports of a cluster.
type PortRepair struct {
	// Services are all Services, those that are being deleted included.
	Services []*corev1.Service

	// Pool is what holds the ports. It is only read. Without it there are no
	// findings.
	Pool *PortPool

	// Suspects are those of the last pass, nil in the first one.
	Suspects Suspects[uint16]
}

// Findings compares Services and the pool. It changes neither. The findings about what
// Services list come first, oldest Service first, then leaks by number.
func (r PortRepair) Findings() ([]Finding[uint16], Suspects[uint16]) {
	if r.Pool == nil {
		return nil, nil
	}
	d := newBookDiff(&r.Pool.ledger, bookReasons{ReasonPortMissing, ReasonPortDuplicate, ReasonPortOutOfRange})
	for _, svc := range byAge(r.Services) {
		d.listed = append(d.listed, listedPorts(svc)...)
	}
	return d.findings(r.Suspects)
}

// listedPorts returns the numbers that svc lists: one for all protocols that
// share it, and another one for each repetition of number and protocol. The
// health-check node port counts as TCP. An ExternalName may have numbers, but gets
// none.
func listedPorts(svc *corev1.Service) []listing[uint16] {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []listing[uint16]
	numbers, seen := map[int32]bool{}, map[portUse]bool{}
	add := func(use portUse, path string) {
		if validPort(use.number) && (!numbers[use.number] || seen[use]) {
			out = append(out, listing[uint16]{value: uint16(use.number), owner: ServiceOwner(svc), field: path})
		}
		numbers[use.number], seen[use] = true, true
	}
	for i, sp := range svc.Spec.Ports {
		add(portUse{sp.NodePort, sp.Protocol}, nodePortPath(i).String())
	}
	add(portUse{svc.Spec.HealthCheckNodePort, corev1.ProtocolTCP}, "spec.healthCheckNodePort")
	return out
}

// A BitmapRepair is what is known about the ClusterIPs of a cluster that keeps
// them in a pool, one for each family, as API servers before Kubernetes 1.34 do.
type BitmapRepair struct {
	// Services are all Services, those that are being deleted included.
	Services []*corev1.Service

	// Pool is what holds the addresses of one family. It is only read. Without it
	// there are no findings.
	Pool *Pool

	// Suspects are those of the last pass, nil in the first one.
	Suspects Suspects[netip.Addr]
}

// Findings compares Services and the pool, as [PortRepair] does. Addresses of the
// other family are left aside.
func (r BitmapRepair) Findings() ([]Finding[netip.Addr], Suspects[netip.Addr]) {
	if r.Pool == nil {
		return nil, nil
	}
	d := newBookDiff(&r.Pool.ledger, bookReasons{ReasonAddressMissing, ReasonAddressDuplicate, ReasonAddressOutOfRange})
	family := ip.Family(r.Pool.ledger.kind.at(0))
	var invalid []Finding[netip.Addr]
	for _, svc := range byAge(r.Services) {
		for i, text := range svc.Spec.ClusterIPs {
			l := listing[netip.Addr]{owner: ServiceOwner(svc), field: specPath().Child("clusterIPs").Index(i).String()}
			addr, ok := ip.ParseAddr(text)
			switch {
			case text == corev1.ClusterIPNone:
			case !ok:
				invalid = append(invalid, Finding[netip.Addr]{
					Problem: Invalid, Owner: l.owner, Field: l.field, Reason: ReasonAddressInvalid,
				})
			case ip.Family(addr) == family:
				l.value = addr
				d.listed = append(d.listed, l)
			}
		}
	}
	findings, suspects := d.findings(r.Suspects)
	return slices.Concat(invalid, findings), suspects
}

// A listing is a value that a Service lists.
type listing[T comparable] struct {
	value T
	owner Owner
	field string
}

// bookReasons are the event reasons for the kind of value.
type bookReasons struct{ missing, duplicate, outOfRange string }

// A bookDiff compares what Services list with what a ledger holds.
type bookDiff[T comparable] struct {
	ledger  *ledger[T]
	reasons bookReasons
	held    map[T]Owner
	order   []T // of held
	listed  []listing[T]
}

func newBookDiff[T comparable](l *ledger[T], reasons bookReasons) *bookDiff[T] {
	d := &bookDiff[T]{ledger: l, reasons: reasons, held: map[T]Owner{}}
	for v, owner := range l.values() {
		d.held[v] = owner
		d.order = append(d.order, v)
	}
	return d
}

func (d *bookDiff[T]) findings(last Suspects[T]) ([]Finding[T], Suspects[T]) {
	var out []Finding[T]
	// Who holds a value and lists it keeps it, also against an older Service.
	rightful := map[T]Owner{}
	for _, l := range d.listed {
		if holder, ok := d.held[l.value]; ok && holder.Same(l.owner) {
			rightful[l.value] = l.owner
		}
	}
	done := map[T]bool{}
	for _, l := range d.listed {
		if f, ok := d.check(l, rightful[l.value], done[l.value]); ok {
			out = append(out, f)
		}
		if owner, ok := rightful[l.value]; !ok || owner == l.owner {
			done[l.value] = true
		}
	}
	leaks, suspects := d.leaks(done, last)
	return append(out, leaks...), suspects
}

// check looks at a value that a Service lists. done says that a better right to
// it was seen, rightful who has it in any case.
func (d *bookDiff[T]) check(l listing[T], rightful Owner, done bool) (Finding[T], bool) {
	f := Finding[T]{Value: l.value, Owner: l.owner, Field: l.field}
	holder, held := d.held[l.value]
	f.Holder = holder
	_, inRange := d.ledger.kind.number(l.value)
	switch {
	case !inRange:
		f.Problem, f.Reason = OutOfRange, d.reasons.outOfRange
	case done, rightful != (Owner{}) && rightful != l.owner:
		f.Problem, f.Reason = Duplicate, d.reasons.duplicate
	case !held:
		f.Problem, f.Remedy, f.Reason = Missing, Create, d.reasons.missing
	case !holder.Same(l.owner):
		f.Problem, f.Remedy = WrongOwner, Replace
	default:
		return f, false
	}
	return f, true
}

// leaks finds what is held and not listed, for the last time in a row.
func (d *bookDiff[T]) leaks(listed map[T]bool, last Suspects[T]) ([]Finding[T], Suspects[T]) {
	var out []Finding[T]
	next := Suspects[T]{}
	for _, v := range d.order {
		switch passes := last[v] + 1; {
		case listed[v]:
		case passes < LeakPasses:
			next[v] = passes
		default:
			// It is not a suspect any more: should it leak again, it has its
			// grace again.
			out = append(out, Finding[T]{Problem: Leak, Remedy: Delete, Value: v, Holder: d.held[v]})
		}
	}
	return out, next
}
