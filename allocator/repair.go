package allocator

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/bounded"
)

// A Problem is what repair finds wrong, in the words of the API servers' metrics
// where they have one.
type Problem string

// The problems that repair knows.
const (
	Leak       Problem = "leak"       // held, and no Service lists it
	Missing    Problem = "repair"     // a Service lists it, nobody holds it
	WrongOwner Problem = "wrongOwner" // held by what does not list it
	Mislabeled Problem = "mislabeled" // its IPAddress has not the labels of the allocator
	Duplicate  Problem = "duplicate"  // two Services list it
	OutOfRange Problem = "outOfRange" // a Service lists it, no range has it
	Invalid    Problem = "invalid"    // a Service lists what is no address
)

// A Remedy is what to do about a problem.
type Remedy uint8

const (
	// Report means that only people can help.
	Report Remedy = iota

	// Create means to make Owner the holder.
	Create

	// Delete means to take the value from Holder.
	Delete

	// Replace means to take the value from Holder and make Owner the holder.
	Replace

	// Wait means that it may be in flight: look again after the time given.
	Wait
)

// Event reasons of findings, as API servers use them.
const (
	ReasonAddressInvalid    = "ClusterIPNotValid"
	ReasonAddressOutOfRange = "ClusterIPOutOfRange"
	ReasonAddressMissing    = "ClusterIPNotAllocated"
	ReasonAddressDuplicate  = "ClusterIPAlreadyAllocated"
	ReasonRecordLeak        = "IPAddressNotAllocated"
	ReasonRecordWrongOwner  = "IPAddressWrongReference"
	ReasonPortMissing       = "PortNotAllocated"
	ReasonPortDuplicate     = "PortAlreadyAllocated"
	ReasonPortOutOfRange    = "PortOutOfRange"
)

// A Finding is a problem with one value, an address or a port, and its remedy.
type Finding[T comparable] struct {
	Problem Problem
	Remedy  Remedy

	// Value is the address or port; it is zero if it is invalid.
	Value T

	// Owner is the Service that lists the value, zero for what no Service lists.
	Owner Owner

	// Field is where Owner lists it, for instance spec.clusterIPs[1]; "" if no
	// Service does.
	Field string

	// Holder is who holds the value, if somebody does.
	Holder Owner

	// Reason is the reason of an event about it, "" for none: on Owner if there is
	// one, else on the IPAddress.
	Reason string

	// After is when to look again, for [Wait].
	After time.Duration
}

// Exists says whether a Service exists, live and not from a cache.
//
// Repair asks it after it made somebody the holder of a value, which it takes
// back if the answer is no: an outdated list of Services so cannot reserve what
// belongs to nobody. It may be nil, which says yes.
type Exists func(ctx context.Context, service Owner) (bool, error)

// Repair carries out findings about the entries of store, and returns the errors
// of those that failed. Entries that somebody else was faster to make or to take
// are no error. Without a store, each finding that needs one is.
func Repair(ctx context.Context, store Store, findings []Finding[netip.Addr], exists Exists) error {
	store = orNone(store)
	var errs []error
	for _, f := range findings {
		err := carryOut(ctx, f, exists, remedies{
			create: func(to Owner) error { return store.Create(ctx, f.Value, to) },
			remove: func(from Owner) error { return store.Delete(ctx, f.Value, from) },
			replace: func(from, to Owner) error {
				if err := store.Delete(ctx, f.Value, from); err != nil {
					return err
				}
				return store.Create(ctx, f.Value, to)
			},
		})
		if err != nil && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrNotOwner) {
			errs = append(errs, storeError("repair", f.Value, err))
		}
	}
	return bounded.Join(errs...)
}

// Repair carries out the findings of [PortRepair] about p, and returns the errors
// of those that failed.
func (p *PortPool) Repair(ctx context.Context, findings []Finding[uint16], exists Exists) error {
	return repairLedger(ctx, &p.ledger, findings, exists)
}

// Repair carries out the findings of [BitmapRepair] about p, and returns the
// errors of those that failed.
func (p *Pool) Repair(ctx context.Context, findings []Finding[netip.Addr], exists Exists) error {
	return repairLedger(ctx, &p.ledger, findings, exists)
}

func repairLedger[T comparable](ctx context.Context, l *ledger[T], findings []Finding[T], exists Exists) error {
	var errs []error
	for _, f := range findings {
		errs = append(errs, carryOut(ctx, f, exists, remedies{
			create:  func(to Owner) error { return l.request("reserve", f.Value, to) },
			remove:  func(from Owner) error { return l.releaseValue(f.Value, from) },
			replace: func(from, to Owner) error { return l.transferValue(f.Value, from, to) },
		}))
	}
	return bounded.Join(errs...)
}

// remedies are how one value is created, removed and replaced.
type remedies struct {
	create, remove func(Owner) error
	replace        func(from, to Owner) error
}

func carryOut[T comparable](ctx context.Context, f Finding[T], exists Exists, do remedies) error {
	var err error
	switch f.Remedy {
	case Create:
		err = do.create(f.Owner)
	case Replace:
		err = do.replace(f.Holder, f.Owner)
	case Delete:
		return do.remove(f.Holder)
	case Report, Wait:
		return nil
	default:
		return nil // a finding of another version, or hand-made
	}
	if err != nil || exists == nil {
		return err
	}
	if ok, err := exists(ctx, f.Owner); err != nil || ok {
		return err
	}
	return do.remove(f.Owner)
}

// byAge returns the Services with the oldest first, since the older one of two
// has the better right; then by namespace and name. It leaves out those that are
// nil.
func byAge(services []*corev1.Service) []*corev1.Service {
	services = slices.DeleteFunc(slices.Clone(services), func(s *corev1.Service) bool { return s == nil })
	return slices.SortedFunc(slices.Values(services), func(a, b *corev1.Service) int {
		return cmp.Or(
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
}
