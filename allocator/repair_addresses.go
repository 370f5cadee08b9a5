package allocator

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/internal/ip"
)

// Times of grace for entries that look wrong.
const (
	// LeakGrace is how long an entry may be without its Service: the Service may
	// be on its way to the store, or its type may be changing.
	LeakGrace = time.Minute

	// RevertGrace is how long an entry that is newer than its Service may differ
	// from it: it may be of an attempt that is being reverted.
	RevertGrace = 5 * time.Second
)

// An AddressRepair is what is known about the ClusterIPs of a cluster that keeps
// them in a [Store]. List Records before Services: then what looks missing is
// missing, and does not belong to a Service that has just gone.
type AddressRepair struct {
	// Services are all Services, those that are being deleted included: they have
	// their addresses until they are gone.
	Services []*corev1.Service

	// Records are all entries of the store.
	Records []Record

	// Ranges are those of all ServiceCIDRs, ready or not.
	Ranges []netip.Prefix

	// Now is the time by which ages are measured.
	Now time.Time
}

// Findings compares Services and records, addresses by meaning and not by text.
// It is pure. The findings about what Services list come first, oldest Service
// first, then those about records, by address. There is one for each address in
// question at most, but for duplicates.
func (r AddressRepair) Findings() []Finding[netip.Addr] {
	d := &addressDiff{
		AddressRepair: r,
		services:      map[types.NamespacedName]*corev1.Service{},
		records:       map[netip.Addr]Record{},
		settled:       map[netip.Addr]bool{},
	}
	for _, prefix := range r.Ranges {
		if pr, err := newPrefixRange(prefix); err == nil {
			d.ranges = append(d.ranges, pr)
		}
	}
	services := byAge(r.Services)
	for _, svc := range services {
		d.services[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = svc
	}
	for _, rec := range r.Records {
		d.records[rec.Addr] = rec
	}
	for _, svc := range services {
		for i, text := range svc.Spec.ClusterIPs {
			d.checkAddress(svc, specPath().Child("clusterIPs").Index(i).String(), text)
		}
		if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
			d.checkAddress(svc, "spec.clusterIP", svc.Spec.ClusterIP)
		}
	}
	for _, rec := range slices.SortedFunc(slices.Values(r.Records), func(a, b Record) int { return a.Addr.Compare(b.Addr) }) {
		if !d.settled[rec.Addr] && !rec.Foreign {
			d.checkRecord(rec)
		}
	}
	return d.findings
}

// An addressDiff is the work on one [AddressRepair].
type addressDiff struct {
	AddressRepair
	ranges   []prefixRange
	services map[types.NamespacedName]*corev1.Service
	records  map[netip.Addr]Record // with those that will be made

	// settled addresses are dealt with from the Services' side.
	settled  map[netip.Addr]bool
	findings []Finding[netip.Addr]
}

// checkAddress checks an address that svc lists.
func (d *addressDiff) checkAddress(svc *corev1.Service, path, text string) {
	if text == "" || text == corev1.ClusterIPNone {
		return
	}
	f := Finding[netip.Addr]{Owner: ServiceOwner(svc), Field: path}
	addr, ok := ip.ParseAddr(text)
	rec, exists := d.records[addr]
	f.Value, f.Holder = addr, rec.Owner
	switch {
	case !ok:
		f.Problem, f.Reason = Invalid, ReasonAddressInvalid
	case !usable(d.ranges, addr):
		f.Problem, f.Reason = OutOfRange, ReasonAddressOutOfRange
	case !exists:
		f.Problem, f.Remedy, f.Reason = Missing, Create, ReasonAddressMissing
	default:
		d.checkHolder(f, rec)
		return
	}
	d.settle(f)
}

// checkHolder checks who holds an address that a Service lists.
func (d *addressDiff) checkHolder(f Finding[netip.Addr], rec Record) {
	holder := d.services[types.NamespacedName{Namespace: rec.Owner.Namespace, Name: rec.Owner.Name}]
	exists := holder != nil && ServiceOwner(holder).Same(rec.Owner)
	mine := f.Owner.Same(rec.Owner)
	switch {
	case mine && (rec.Foreign || !rec.Mislabeled):
		return
	case rec.Foreign, !mine && exists && lists(holder, rec.Addr):
		f.Problem, f.Reason = Duplicate, ReasonAddressDuplicate
	case !mine && !exists:
		f.Problem, f.Remedy, f.Reason = WrongOwner, Replace, ReasonAddressMissing
	case rec.Mislabeled:
		f.Problem, f.Remedy = Mislabeled, Replace
	default:
		return // its holder exists and does not list it: see checkRecord
	}
	if f.Problem == Duplicate {
		d.findings = append(d.findings, f) // the record itself is looked at later
		return
	}
	d.settle(f)
}

// settle notes a finding, and what the store will have once it is carried out.
func (d *addressDiff) settle(f Finding[netip.Addr]) {
	d.findings = append(d.findings, f)
	switch f.Remedy {
	case Create, Replace:
		d.settled[f.Value] = true
		d.records[f.Value] = Record{Addr: f.Value, Owner: f.Owner}
	case Report, Delete, Wait:
	}
}

// checkRecord checks an entry of the store against the Service that it names.
func (d *addressDiff) checkRecord(rec Record) {
	age := d.Now.Sub(rec.Created)
	f := Finding[netip.Addr]{Value: rec.Addr, Holder: rec.Owner, Problem: Leak, Remedy: Delete, Reason: ReasonRecordLeak}
	svc := d.services[types.NamespacedName{Namespace: rec.Owner.Namespace, Name: rec.Owner.Name}]
	switch {
	case rec.Owner.Name == "":
	case svc == nil || !ServiceOwner(svc).Same(rec.Owner):
		if age <= LeakGrace {
			f.wait(LeakGrace - age)
		}
	case lists(svc, rec.Addr):
		return
	case svc.Spec.Type == corev1.ServiceTypeExternalName && age < LeakGrace:
		f.wait(LeakGrace - age)
	case rec.Created.After(svc.CreationTimestamp.Time) && age < RevertGrace:
		f.wait(RevertGrace - age)
	default:
		f.Problem, f.Reason = WrongOwner, ReasonRecordWrongOwner
	}
	if rec.Created.IsZero() && rec.Owner.Name != "" {
		f.Remedy = Report // one look without an age proves nothing
	}
	d.findings = append(d.findings, f)
}

// wait turns f into a finding to look at again, at the earliest in an instant.
func (f *Finding[T]) wait(after time.Duration) {
	f.Remedy, f.Reason, f.After = Wait, "", max(after, time.Second)
}

// lists reports whether svc lists addr, by meaning.
func lists(svc *corev1.Service, addr netip.Addr) bool {
	is := func(text string) bool {
		a, ok := ip.ParseAddr(text)
		return ok && a == addr
	}
	return is(svc.Spec.ClusterIP) || slices.ContainsFunc(svc.Spec.ClusterIPs, is)
}
