package allocator

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package, for use with [errors.Is]. They come wrapped in an
// [*Error] that names the value they are about.
var (
	// ErrFull says that no number is free. Quarantined and excluded ones are not free.
	ErrFull = errors.New("range is full")

	// ErrTaken says that somebody holds the value already.
	ErrTaken = errors.New("already allocated")

	// ErrOutOfRange says that no known range has the value.
	ErrOutOfRange = errors.New("not in the valid range")

	// ErrReserved says that the value was excluded from the pool.
	ErrReserved = errors.New("excluded from the range")

	// ErrNotOwner says that the value belongs to somebody else.
	ErrNotOwner = errors.New("held by another owner")

	// ErrNoRange says that there is no range of the family at all.
	ErrNoRange = errors.New("no range")

	// ErrNotReady says that the only ranges that could serve are not ready, for
	// instance because they are being deleted. Trying later may help.
	ErrNotReady = errors.New("range is not ready")

	// ErrMismatch says that a snapshot is of another range.
	ErrMismatch = errors.New("snapshot of another range")

	// ErrCorrupt says that a snapshot cannot be what this package or the API
	// server wrote: a wrong checksum, version or bit.
	ErrCorrupt = errors.New("corrupt snapshot")

	// ErrDone says that the transaction was committed or rolled back before.
	ErrDone = errors.New("transaction is finished")
)

// An Error says what could not be done with an address, a port or a range.
//
// Its text is part of the contract in one point: out of range errors for
// addresses contain "The range of valid IPs is " followed by the range, up to
// the end of the text, because programs in the field look for it; see
// [DiscoverServiceRanges].
type Error struct {
	// Op is what was tried: "claim", "reserve", "pick", "release", "transfer",
	// "exclude", "snapshot", "restore" or "new".
	Op string

	// Value is the address, port or range that it was tried on.
	Value string

	// Owner is who holds the value, for [ErrTaken] and [ErrNotOwner]. The zero
	// Owner means that this is not known.
	Owner Owner

	// Ranges are the valid ranges, for [ErrOutOfRange]; do not change them.
	Ranges []string

	// Err is one of the errors of this package or that of a [Store].
	Err error

	// ports selects the wording for ranges.
	ports bool
}

// Error returns the text, which starts with "allocator: ".
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "allocator: %s %s: %v", e.Op, e.Value, e.Err)
	if e.Owner != (Owner{}) {
		b.WriteString(" by " + e.Owner.String())
	}
	if len(e.Ranges) > 0 {
		what := ": The range of valid IPs is "
		if e.ports {
			what = ": The range of valid ports is "
		}
		b.WriteString(what + strings.Join(e.Ranges, ","))
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
