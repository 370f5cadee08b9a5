package nftables

import (
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A table is what is known to be in the kernel's table of one family.
type table struct {
	*family
	broken error // why the family cannot be programmed, for this Sync

	chains  map[string]string // name -> print
	boxes   map[string]box
	config  []element
	counted map[netip.Addr]int   // what is there of boxClusterIPs -> how many Service ports want it
	dying   map[string]time.Time // flushed chains -> when; they cannot always be deleted at once

	// sums has what the elements of each box add up to.
	sums map[string]sum
	seed maphash.Seed
}

// A sum is a digest of a set of elements that an element is added to and taken from at the same
// cost, however many there are.
type sum struct {
	n    int
	hash uint64
}

func (s sum) add(o sum) sum  { return sum{s.n + o.n, s.hash + o.hash} }
func (s sum) less(o sum) sum { return sum{s.n - o.n, s.hash - o.hash} }

// sum returns the digest of one element. The comment, which no packet meets, is no part of it.
func (t *table) sum(el element) sum {
	k := el.id.key
	if k.src.IsValid() {
		k.src = k.src.Masked()
	}
	return sum{1, maphash.Comparable(t.seed, keyAndValue{k, el.value})}
}

type keyAndValue struct {
	key   key
	value value
}

// counted stands for an element that several Service ports may want: a ClusterIP. It
// is smaller than an elementID, and there are many.
func (id elementID) counted() netip.Addr { return id.key.addr }

func newTable(f *family) *table {
	return &table{
		family: f, chains: make(map[string]string), boxes: make(map[string]box),
		counted: make(map[netip.Addr]int), dying: make(map[string]time.Time),
		sums: make(map[string]sum), seed: maphash.MakeSeed(),
	}
}

// An item is a change of one table that makes sense alone: one Service port, or
// what all of them stand on.
type item struct {
	table         *table
	before, after *program
	kind          itemKind
	config        []element // of the table from now on; not of a Service port

	// key and next are of a Service port; next is nil if the port goes.
	key  plan.Key
	next *portState

	// found is what adoption found of the port in the kernel, nil if this is none.
	found *program

	carried []carried // clients that the port's new maps begin with
}

type itemKind int

const (
	portItem    itemKind = iota
	baseItem             // chains, boxes and configuration of an existing table
	createItem           // the same, and the table itself
	replaceItem          // the same, in the place of another layout
	commonItem           // shared chains in advance
	staleItem            // what nobody wants any more
)
