package allocator

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A Store is where several processes agree on who holds which address; creating
// an entry is the only synchronisation between them. [NewIPAddressStore] keeps
// IPAddress objects, [NewMemoryStore] a map.
//
// A Store is safe for concurrent use. An error that does not wrap one of this
// package ends what was going on, and comes back wrapped in an [*Error].
type Store interface {
	// Create makes owner the holder of addr if there is none, in one step. It
	// returns an error that wraps [ErrTaken] if there is one, whoever it is.
	Create(ctx context.Context, addr netip.Addr, owner Owner) error

	// Delete removes the entry of addr if owner holds it. No entry is no error;
	// another holder is an error that wraps [ErrNotOwner].
	Delete(ctx context.Context, addr netip.Addr, owner Owner) error

	// Get returns the entry of addr, not from a cache, and whether there is one.
	Get(ctx context.Context, addr netip.Addr) (Record, bool, error)

	// List returns all entries, of both families and in any order.
	List(ctx context.Context) ([]Record, error)
}

// A Record is an entry of a [Store].
type Record struct {
	Addr  netip.Addr
	Owner Owner // zero if it is not a Service

	// Created is when the entry was made, zero if unknown.
	Created time.Time

	// Foreign says that it was made by something that manages its own entries: it
	// blocks the address, and nothing here repairs or removes it.
	Foreign bool

	// Mislabeled says that the labels are not those of [NewIPAddressStore].
	Mislabeled bool
}

// errNoStore is the answer where a program gave no Store or client.
var errNoStore = errors.New("no store was given")

// orNone returns s, or a Store of which every call is an error if s is nil.
func orNone(s Store) Store {
	if s == nil {
		return noStore{}
	}
	return s
}

type noStore struct{}

func (noStore) Create(context.Context, netip.Addr, Owner) error { return errNoStore }
func (noStore) Delete(context.Context, netip.Addr, Owner) error { return errNoStore }
func (noStore) Get(context.Context, netip.Addr) (Record, bool, error) {
	return Record{}, false, errNoStore
}
func (noStore) List(context.Context) ([]Record, error) { return nil, errNoStore }

// A MemoryStore is a [Store] in memory, for one process and for tests. The zero
// MemoryStore is empty and takes the time from [time.Now].
type MemoryStore struct {
	now func() time.Time // nil for time.Now

	mu      sync.Mutex
	records map[netip.Addr]Record
}

// NewMemoryStore returns an empty store. It takes the time of creation from now,
// or from [time.Now] if that is nil.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now}
}

// Create implements [Store].
func (s *MemoryStore) Create(_ context.Context, addr netip.Addr, owner Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.records[addr]; ok {
		return &Error{Op: "create", Value: addr.String(), Owner: r.Owner, Err: ErrTaken}
	}
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	if s.records == nil {
		s.records = map[netip.Addr]Record{}
	}
	s.records[addr] = Record{Addr: addr, Owner: owner, Created: now()}
	return nil
}

// Delete implements [Store].
func (s *MemoryStore) Delete(_ context.Context, addr netip.Addr, owner Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[addr]
	if ok && !r.Owner.Same(owner) {
		return &Error{Op: "delete", Value: addr.String(), Owner: r.Owner, Err: ErrNotOwner}
	}
	delete(s.records, addr)
	return nil
}

// Get implements [Store].
func (s *MemoryStore) Get(_ context.Context, addr netip.Addr) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[addr]
	return r, ok, nil
}

// List implements [Store]; the records are sorted by address.
func (s *MemoryStore) List(context.Context) ([]Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Record, 0, len(s.records))
	for _, r := range s.records {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Record) int { return a.Addr.Compare(b.Addr) })
	return list, nil
}

// WithStore returns a [Source] that takes addresses from first and confirms them
// in second, for two books that must agree: make first the one with the smaller
// range or the stricter rules. What second refuses is given back to first.
func WithStore(first Source[netip.Addr], second Store) Source[netip.Addr] {
	if first == nil {
		first = noSource[netip.Addr]{}
	}
	return &twoBooks{first, orNone(second)}
}

type twoBooks struct {
	first  Source[netip.Addr]
	second Store
}

func (s *twoBooks) Claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	if err := s.first.Claim(ctx, addr, owner); err != nil {
		return err
	}
	return s.confirm(ctx, addr, owner)
}

// confirm makes the entry of addr in second, or gives addr back to first, also if
// second panics.
func (s *twoBooks) confirm(ctx context.Context, addr netip.Addr, owner Owner) (err error) {
	confirmed := false
	defer func() {
		if !confirmed {
			err = errors.Join(err, s.first.Release(context.WithoutCancel(ctx), addr, owner))
		}
	}()
	if err = s.second.Create(ctx, addr, owner); err != nil {
		return storeError("claim", addr, err)
	}
	confirmed = true
	return nil
}

func (s *twoBooks) Pick(ctx context.Context, owner Owner) (addr netip.Addr, err error) {
	// What is taken in second stays claimed in first until the end, so that each
	// candidate comes once.
	var refused []netip.Addr
	defer func() {
		failed := s.giveBack(context.WithoutCancel(ctx), refused, owner)
		if failed != nil && err == nil { // an error means that nothing has changed
			failed = errors.Join(failed, s.Release(context.WithoutCancel(ctx), addr, owner))
			addr = netip.Addr{}
		}
		err = errors.Join(err, failed)
	}()
	for {
		candidate, err := s.first.Pick(ctx, owner)
		if err != nil {
			return netip.Addr{}, err
		}
		refused = append(refused, candidate) // unless second says yes, and does not panic
		err = s.second.Create(ctx, candidate, owner)
		if err == nil {
			refused = refused[:len(refused)-1]
			return candidate, nil
		}
		if !errors.Is(err, ErrTaken) {
			return netip.Addr{}, storeError("pick", candidate, err)
		}
	}
}

// giveBack releases addrs in first.
func (s *twoBooks) giveBack(ctx context.Context, addrs []netip.Addr, owner Owner) error {
	var errs []error
	for _, a := range addrs {
		errs = append(errs, s.first.Release(ctx, a, owner))
	}
	return errors.Join(errs...)
}

func (s *twoBooks) Release(ctx context.Context, addr netip.Addr, owner Owner) error {
	// The other way round: first must not hand out what second still has.
	if err := s.second.Delete(ctx, addr, owner); err != nil {
		return storeError("release", addr, err)
	}
	return s.first.Release(ctx, addr, owner)
}

func (s *twoBooks) DryRun(mode DryRunMode) Source[netip.Addr] {
	if mode == AsUpstream {
		return s.first.DryRun(mode)
	}
	return WithStore(s.first.DryRun(mode), readOnly{s.second})
}

// storeError returns err as an [*Error] that names addr.
func storeError(op string, addr netip.Addr, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Op: op, Value: addr.String(), Err: err}
}

// A readOnly store answers as the other one would, and changes nothing.
type readOnly struct{ store Store }

func (s readOnly) Create(ctx context.Context, addr netip.Addr, _ Owner) error {
	r, ok, err := s.store.Get(ctx, addr)
	if err == nil && ok {
		err = &Error{Op: "create", Value: addr.String(), Owner: r.Owner, Err: ErrTaken}
	}
	return err
}

func (s readOnly) Delete(ctx context.Context, addr netip.Addr, owner Owner) error {
	r, ok, err := s.store.Get(ctx, addr)
	if err == nil && ok && !r.Owner.Same(owner) {
		err = &Error{Op: "delete", Value: addr.String(), Owner: r.Owner, Err: ErrNotOwner}
	}
	return err
}

func (s readOnly) Get(ctx context.Context, addr netip.Addr) (Record, bool, error) {
	return s.store.Get(ctx, addr)
}

func (s readOnly) List(ctx context.Context) ([]Record, error) { return s.store.List(ctx) }
