package allocator

import "iter"

// A ledger is a book of values of one kind, addresses or ports: what [Pool] and
// [PortPool] have in common. It puts the value, the holder and the range into the
// errors of the book.
type ledger[T any] struct {
	*book
	kind  kind[T]
	text  string // the range, as errors and snapshots name it
	bits  uint64 // how many of the numbers a RangeAllocation holds
	ports bool   // selects the wording of errors
}

// A kind maps values to the numbers of a book and back.
type kind[T any] interface {
	number(value T) (uint64, bool)
	at(n uint64) T
	label(value T) string
}

// request is Claim ("claim") and Reserve ("reserve").
func (l *ledger[T]) request(op string, value T, owner Owner) error {
	n, ok := l.kind.number(value)
	if !ok {
		return l.observe(Static, l.outOfRange(op, value))
	}
	holder, err := l.claim(n, owner, op == "reserve")
	return l.observe(Static, l.wrap(op, value, holder, err))
}

func (l *ledger[T]) pickValue(owner Owner) (T, error) {
	n, err := l.pick(owner)
	if err != nil {
		var none T
		return none, l.observe(Dynamic, &Error{Op: "pick", Value: l.text, Err: err})
	}
	return l.kind.at(n), l.observe(Dynamic, nil)
}

func (l *ledger[T]) releaseValue(value T, owner Owner) error {
	n, ok := l.kind.number(value)
	if !ok {
		return nil
	}
	holder, err := l.release(n, owner)
	return l.wrap("release", value, holder, err)
}

func (l *ledger[T]) transferValue(value T, from, to Owner) error {
	n, ok := l.kind.number(value)
	if !ok {
		return l.outOfRange("transfer", value)
	}
	holder, err := l.transfer(n, from, to)
	return l.wrap("transfer", value, holder, err)
}

func (l *ledger[T]) excludeValues(values []T) error {
	for _, value := range values {
		n, ok := l.kind.number(value)
		if !ok {
			return l.outOfRange("exclude", value)
		}
		holder, err := l.exclude(n)
		if err != nil {
			return l.wrap("exclude", value, holder, err)
		}
	}
	return nil
}

func (l *ledger[T]) ownerOf(value T) (Owner, bool) {
	n, ok := l.kind.number(value)
	if !ok {
		return Owner{}, false
	}
	return l.owner(n)
}

func (l *ledger[T]) values() iter.Seq2[T, Owner] {
	return func(yield func(T, Owner) bool) {
		for n, owner := range l.all() {
			if !yield(l.kind.at(n), owner) {
				return
			}
		}
	}
}

func (l *ledger[T]) boundsOf(band Band) (first, last T, ok bool) {
	from, to := l.bounds(band)
	if from == to {
		return first, last, false
	}
	return l.kind.at(from), l.kind.at(to - 1), true
}

func (l *ledger[T]) outOfRange(op string, value T) error {
	return &Error{Op: op, Value: l.kind.label(value), Ranges: []string{l.text}, Err: ErrOutOfRange, ports: l.ports}
}

func (l *ledger[T]) wrap(op string, value T, holder Owner, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Value: l.kind.label(value), Owner: holder, Err: err, ports: l.ports}
}
