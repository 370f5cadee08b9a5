package nftables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vipkit/vipkit/backends"
)

var _ backends.Checker = (*Backend)(nil)

// sampled is how many elements Check looks up by key: all of a small table.
const sampled = 256

// Check reports whether the tables are as the last Sync left them, false before
// the first. It reads over netlink and runs no nft.
//
// If nobody has committed anything to nftables since (one question to the kernel), they are.
// Otherwise Check compares every chain with its rules, every set and map, the elements of the configuration, and a sample of
// the other elements, another one each time; elements that were removed by hand from a large table are found sooner or
// later, or by the next full Sync. Objects that somebody added beside ours are no reason for false.
func (b *Backend) Check(context.Context) (bool, error) {
	if b.base == nil {
		return false, nil
	}
	now, err := b.kernel.generation()
	if err != nil || now == b.verified {
		return err == nil, err
	}
	for _, t := range b.tables {
		if ok, err := b.checkTable(t); err != nil || !ok {
			return false, err
		}
	}
	b.verified = now
	return true, nil
}

func (b *Backend) checkTable(t *table) (bool, error) {
	found, err := b.kernel.read(t.family, b.opts.Table)
	if err != nil || found == nil {
		return false, err
	}
	for name, print := range t.chains {
		if have, ok := found.chains[name]; !ok || have != print {
			return false, nil
		}
	}
	for name, box := range t.boxes {
		if have, ok := found.boxes[name]; !ok || have != t.info(box) {
			return false, nil
		}
	}
	if ok, err := b.checkConfig(t); err != nil || !ok {
		return false, err
	}
	if ok, err := b.checkPicks(t); err != nil || !ok {
		return false, err
	}
	return b.checkSample(t)
}

// checkPicks looks whether all shared chains can be reached.
func (b *Backend) checkPicks(t *table) (bool, error) {
	have := make(map[elementID]value)
	for _, in := range places() {
		elements, err := b.kernel.elements(t.family, b.opts.Table, t.boxes[in.picks()])
		if err != nil {
			return false, err
		}
		for _, el := range elements {
			have[el.id] = el.value
		}
	}
	for name := range t.chains {
		s, ok := parseShared(name)
		if ok && s.kind == pickChain && have[s.entry().id] != s.entry().value {
			return false, nil
		}
	}
	return true, nil
}

// checkConfig compares the sets of ranges: an interval set cannot be asked for one of
// its elements on every kernel.
func (b *Backend) checkConfig(t *table) (bool, error) {
	var have []elementID
	for _, name := range []string{boxPodCIDRs, boxServiceCIDRs, boxNodePortAddresses} {
		elements, err := b.kernel.elements(t.family, b.opts.Table, t.boxes[name])
		if err != nil {
			return false, err
		}
		for _, el := range elements {
			have = append(have, el.id)
		}
	}
	for _, el := range t.config {
		if !slices.Contains(have, el.id) {
			return false, nil
		}
	}
	return len(have) == len(t.config), nil
}

// checkSample looks up elements of some Service ports, in the random order of maps.
func (b *Backend) checkSample(t *table) (bool, error) {
	comp := compiler{layout: b.layout, f: t.family}
	left := sampled
	for k, s := range b.ports {
		if left <= 0 {
			return true, nil
		}
		if k.Family != t.ip {
			continue
		}
		p := comp.compile(s)
		elements := slices.Concat(p.elements, p.counted)
		rand.Shuffle(len(elements), func(i, j int) { elements[i], elements[j] = elements[j], elements[i] })
		elements = elements[:min(left, len(elements))]
		left -= len(elements)
		if ok, err := b.checkElements(t, elements); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (b *Backend) checkElements(t *table, elements []element) (bool, error) {
	for _, el := range elements {
		have, ok, err := b.kernel.element(t.family, b.opts.Table, t.boxes[el.id.box], el.id.key)
		if err != nil {
			return false, fmt.Errorf("nftables: check: %w", err)
		}
		if !ok || have.value != el.value {
			return false, nil
		}
	}
	return true, nil
}
