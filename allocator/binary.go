package allocator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"k8s.io/apimachinery/pkg/types"
)

// The binary form, version 1: the magic, then as unsigned varints or as strings
// with their length in front:
//
//	range, size
//	number of runs; for each: free numbers since the last one, length
//	number of owners; for each: namespace, name, UID
//	number of owned values; for each: distance to the last one, index of owner
//
// and CRC-32C of all that, four bytes, most significant first.
const binaryMagic = "VIPKIT-POOL\x01"

// MarshalBinary returns the addresses in use and their owners in a compact form
// of this package, with version and checksum. Exclusions and quarantine are not
// in it. It holds the lock for a time in proportion to the addresses in use.
func (p *Pool) MarshalBinary() ([]byte, error) { return p.ledger.marshal(), nil }

// UnmarshalBinary makes the addresses in data the only ones in use; exclusions
// stay. It returns an [*Error] that wraps [ErrCorrupt], [ErrMismatch] or
// [ErrReserved]; the pool is then unchanged. A Pool must come from a constructor
// before it can be filled.
func (p *Pool) UnmarshalBinary(data []byte) error { return p.ledger.unmarshal(data) }

// MarshalBinary returns the ports in use and their owners; see
// [Pool.MarshalBinary].
func (p *PortPool) MarshalBinary() ([]byte, error) { return p.ledger.marshal(), nil }

// UnmarshalBinary makes the ports in data the only ones in use; see
// [Pool.UnmarshalBinary].
func (p *PortPool) UnmarshalBinary(data []byte) error { return p.ledger.unmarshal(data) }

func (l *ledger[T]) marshal() []byte {
	runs, owned := l.heldRuns()
	out := appendText([]byte(binaryMagic), l.text)
	out = binary.AppendUvarint(out, l.size)
	out = binary.AppendUvarint(out, uint64(len(runs)))
	end := uint64(0)
	for _, r := range runs {
		out = binary.AppendUvarint(out, r.first-end)
		out = binary.AppendUvarint(out, r.count)
		end = r.first + r.count
	}
	out = appendOwned(out, owned)
	return binary.BigEndian.AppendUint32(out, checksum(out))
}

// heldRuns returns the held numbers as runs, and those that have an owner.
func (l *ledger[T]) heldRuns() (runs []run, owned []holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, ok := l.set.next(0); ok; n, ok = l.set.next(n + 1) {
		if !l.held(n) {
			continue
		}
		runs = appendNumber(runs, n)
		if owner := l.owners[n]; owner != (Owner{}) {
			owned = append(owned, holding{n, owner})
		}
	}
	return runs, owned
}

func appendOwned(out []byte, owned []holding) []byte {
	index := map[Owner]uint64{}
	var owners []Owner
	for _, h := range owned {
		if _, ok := index[h.owner]; !ok {
			index[h.owner] = uint64(len(owners))
			owners = append(owners, h.owner)
		}
	}
	out = binary.AppendUvarint(out, uint64(len(owners)))
	for _, o := range owners {
		out = appendText(appendText(appendText(out, o.Namespace), o.Name), string(o.UID))
	}
	out = binary.AppendUvarint(out, uint64(len(owned)))
	last := uint64(0)
	for _, h := range owned {
		out = binary.AppendUvarint(out, h.n-last)
		out = binary.AppendUvarint(out, index[h.owner])
		last = h.n
	}
	return out
}

func appendText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

func (l *ledger[T]) unmarshal(data []byte) error {
	body := len(data) - 4
	if body < len(binaryMagic) || string(data[:len(binaryMagic)]) != binaryMagic {
		return l.corrupt(errors.New("no header of version 1"))
	}
	if binary.BigEndian.Uint32(data[body:]) != checksum(data[:body]) {
		return l.corrupt(errors.New("wrong checksum"))
	}
	d := &decoder{rest: data[len(binaryMagic):body]}
	text, size := d.text(), d.number()
	if d.err == nil && (text != l.text || size != l.size) {
		return &Error{Op: "restore", Value: text, Err: fmt.Errorf("%w: want %s", ErrMismatch, l.text)}
	}
	runs := d.runs(l.size)
	owners := d.owned(runs)
	if d.err == nil && len(d.rest) > 0 {
		d.err = errors.New("data after the end")
	}
	if d.err != nil {
		return l.corrupt(d.err)
	}
	return l.restore(runs, owners, l.size)
}

func (l *ledger[T]) corrupt(cause error) error {
	return &Error{Op: "restore", Value: l.text, Err: fmt.Errorf("%w: %w", ErrCorrupt, cause)}
}

// A decoder reads the binary form. Its first error stays.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(text string) {
	if d.err == nil {
		d.err = errors.New(text)
	}
	d.rest = nil
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("cut off")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail("cut off")
		return ""
	}
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

// runs reads runs that are in order, apart, and below size.
func (d *decoder) runs(size uint64) []run {
	var runs []run
	end := uint64(0)
	for count := d.number(); count > 0 && d.err == nil; count-- {
		gap, length := d.number(), d.number()
		switch {
		case length == 0, gap == 0 && end > 0:
			d.fail("runs that are empty or touch")
		case gap > size-end, length > size-end-gap:
			d.fail("an entry beyond the range")
		}
		runs = append(runs, run{end + gap, length})
		end += gap + length
	}
	return runs
}

// owned reads the owners of numbers, which must be in runs.
func (d *decoder) owned(runs []run) map[uint64]Owner {
	count := d.number()
	owners := make([]Owner, 0, min(count, uint64(len(d.rest))/3)) // an owner takes 3 bytes or more
	for ; count > 0 && d.err == nil; count-- {
		owners = append(owners, Owner{d.text(), d.text(), types.UID(d.text())})
	}
	count = d.number()
	owned := make(map[uint64]Owner, min(count, uint64(len(d.rest))/2))
	for n := uint64(0); count > 0 && d.err == nil; count-- {
		step, i := d.number(), d.number()
		if i >= uint64(len(owners)) || step > math.MaxUint64-n {
			d.fail("an unknown owner or value")
			break
		}
		n += step
		for len(runs) > 0 && runs[0].first+runs[0].count <= n {
			runs = runs[1:]
		}
		if len(runs) == 0 || n < runs[0].first {
			d.fail("an owner of a free value")
			break
		}
		owned[n] = owners[i]
	}
	return owned
}
