package allocator

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Options configure a [Pool] or a [PortPool]. The zero value does what
// Kubernetes does.
type Options struct {
	// Lowest makes picks take the lowest free number of the band in place of a
	// random one.
	Lowest bool

	// Quarantine is how long a released number cannot be picked, so that slow
	// watchers and connection tracking do not see it change hands at once. An
	// explicit request gets it anyway. The default is 0, no quarantine; one
	// minute is a good choice.
	Quarantine time.Duration

	// Now is the clock for the quarantine. The default is [time.Now].
	Now func() time.Time

	// Rand returns a number in [0, n); n is at least 1, and results out of range
	// are taken modulo n. It is called with the lock of the pool held, as Now is,
	// so neither may call back. The default is [rand.Uint64N] of math/rand/v2, which is seeded by the
	// operating system: processes that share a store do not collide in step.
	Rand func(n uint64) uint64

	// Observe, if not nil, hears of each claim, reservation and pick after it is
	// done: how it was asked for, and the error if any. It is called without
	// locks, on the goroutine of the caller. Gauges should read Stats instead. If
	// it panics, what was done stays done.
	Observe func(scope Band, err error)
}

// Stats counts the numbers of a band or range. Size is the sum of the others.
type Stats struct {
	Size        uint64 // all numbers that the range can hand out
	Free        uint64 // can be picked now
	Used        uint64 // held by somebody
	Quarantined uint64 // released, and not to be picked yet
	Excluded    uint64 // never handed out
}

// plus returns the sum of both.
func (s Stats) plus(o Stats) Stats {
	return Stats{
		s.Size + o.Size, s.Free + o.Free, s.Used + o.Used,
		s.Quarantined + o.Quarantined, s.Excluded + o.Excluded,
	}
}

// A book records who holds which of the numbers below size. Numbers are in one
// of four states: free, held, quarantined, excluded; the last three are in set.
// It returns the bare errors of this package; pools add the value they are about.
type book struct {
	opts   Options
	size   uint64
	offset uint64 // numbers below are the static band

	mu       sync.Mutex
	set      numberSet
	stats    [2]Stats            // by Band
	owners   map[uint64]Owner    // held numbers whose owner is not zero
	excluded map[uint64]struct{} // never handed out
	cooling  deadlines[uint64]   // quarantined numbers, until when
}

func newBook(size, offset uint64, opts Options) *book {
	if opts.Rand == nil {
		opts.Rand = rand.Uint64N
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	b := &book{opts: opts, size: size, offset: offset}
	b.reset(nil)
	return b
}

// reset forgets everything but the exclusions, and makes runs the held numbers.
// They must be sorted, apart, in range and not excluded; mu must be held or b new.
func (b *book) reset(runs []run) {
	b.set = newNumberSet(b.size)
	b.owners = map[uint64]Owner{}
	b.cooling = deadlines[uint64]{}
	used := uint64(0)
	for _, r := range runs {
		b.set.addRun(r)
		used += r.count
	}
	static := b.set.below(b.offset)
	b.stats = [2]Stats{
		Static:  {Size: b.offset, Used: static, Free: b.offset - static},
		Dynamic: {Size: b.size - b.offset, Used: used - static, Free: b.size - b.offset - (used - static)},
	}
	for n := range b.excluded {
		b.set.add(n)
		s := b.band(n)
		s.Free--
		s.Excluded++
	}
}

// band returns the counts of the band of n.
func (b *book) band(n uint64) *Stats {
	if n < b.offset {
		return &b.stats[Static]
	}
	return &b.stats[Dynamic]
}

// observe reports err to the user and returns it.
func (b *book) observe(scope Band, err error) error {
	if b.opts.Observe != nil {
		b.opts.Observe(scope, err)
	}
	return err
}

// claim gives n to owner; with again, it is no error if owner has it already.
// It returns the holder if that is why it failed.
func (b *book) claim(n uint64, owner Owner, again bool) (Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set.add(n) {
		b.hold(n, owner)
		return Owner{}, nil
	}
	if _, ok := b.excluded[n]; ok {
		return Owner{}, ErrReserved
	}
	if b.cooling.has(n) {
		b.warm(n)
		b.set.add(n)
		b.hold(n, owner)
		return Owner{}, nil
	}
	holder := b.owners[n]
	if !again || !holder.Same(owner) {
		return holder, ErrTaken
	}
	if holder.UID == "" && owner.UID != "" {
		b.owners[n] = owner // from now on, a successor of that name is another one
	}
	return Owner{}, nil
}

// hold moves n, which was just put into the set, from free to held.
func (b *book) hold(n uint64, owner Owner) {
	if owner != (Owner{}) {
		b.owners[n] = owner
	}
	s := b.band(n)
	s.Free--
	s.Used++
}

// pick gives a free number to owner.
func (b *book) pick(owner Owner) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	n, err := b.draw()
	if err == nil {
		b.set.add(n)
		b.hold(n, owner)
	}
	return n, err
}

// draw selects a free number: from the dynamic band while it has one.
func (b *book) draw() (uint64, error) {
	static, dynamic := b.stats[Static].Free, b.stats[Dynamic].Free
	switch {
	case dynamic > 0:
		return b.set.free(static + b.random(dynamic)), nil
	case static > 0:
		return b.set.free(b.random(static)), nil
	}
	return 0, ErrFull
}

// random returns a number in [0, n).
func (b *book) random(n uint64) uint64 {
	if b.opts.Lowest {
		return 0
	}
	return b.opts.Rand(n) % n
}

// release frees n if owner has it. A number that nobody holds is no error. It
// returns the holder if that is why it failed.
func (b *book) release(n uint64, owner Owner) (Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if holder, owned := b.owners[n]; !holder.Same(owner) {
		if owned || b.held(n) {
			return holder, ErrNotOwner
		}
		return Owner{}, nil
	}
	if !b.drop(n) {
		return Owner{}, nil
	}
	if b.opts.Quarantine > 0 {
		b.cool(n)
	}
	return Owner{}, nil
}

// drop moves n from held to free. It reports false if nobody has n.
func (b *book) drop(n uint64) bool {
	if b.special(n) || !b.set.remove(n) {
		return false
	}
	delete(b.owners, n)
	s := b.band(n)
	s.Used--
	s.Free++
	return true
}

// held reports whether somebody has n.
func (b *book) held(n uint64) bool { return !b.special(n) && b.set.has(n) }

// special reports whether n is in the set for another reason than being held.
func (b *book) special(n uint64) bool {
	_, excluded := b.excluded[n]
	return excluded || b.cooling.has(n)
}

// owner returns who has n, and whether somebody has it.
func (b *book) owner(n uint64) (Owner, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owners[n], b.held(n)
}

// transfer gives n from one owner to another.
func (b *book) transfer(n uint64, from, to Owner) (Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	holder := b.owners[n]
	if !b.held(n) || !holder.Same(from) {
		return holder, ErrNotOwner
	}
	delete(b.owners, n)
	if to != (Owner{}) {
		b.owners[n] = to
	}
	return Owner{}, nil
}

// exclude takes n out of the range. It fails if somebody has it.
func (b *book) exclude(n uint64) (Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.excluded[n]; ok {
		return Owner{}, nil
	}
	if b.held(n) {
		return b.owners[n], ErrTaken
	}
	if b.cooling.has(n) {
		b.warm(n)
	}
	if b.excluded == nil {
		b.excluded = map[uint64]struct{}{}
	}
	b.excluded[n] = struct{}{}
	b.set.add(n)
	s := b.band(n)
	s.Free--
	s.Excluded++
	return Owner{}, nil
}

// counts returns the counts of a band, none if there is no such band.
func (b *book) counts(band Band) Stats {
	if band > Dynamic {
		return Stats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	return b.stats[band]
}

// bounds returns the first number of a band and the one after its last.
func (b *book) bounds(band Band) (from, to uint64) {
	switch band {
	case Static:
		return 0, b.offset
	case Dynamic:
		return b.offset, b.size
	}
	return 0, 0
}
