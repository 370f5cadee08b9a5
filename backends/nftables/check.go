package nftables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vipkit/vipkit/backends"
)

var _ backends.Checker = (*Backend)(nil)

// Of the elements, Check reads sets and maps as a whole, until it has read checkedElements: about a tenth of a second.
// The next Check goes on with the others. A set or map of more is never read by Check: what a piece of a
// dump costs grows with what comes before it. Of such a one sampledElements are looked up by key each time.
const (
	checkedElements = 50_000
	sampledElements = 256
	costOfBox       = 20 // what asking for a set or map costs beyond its elements, in elements
)

// errDiffers is wrapped by the error that says what is not as the last Sync left it.
var errDiffers = errors.New("changed by somebody else")

// answer makes what Check returns of an error: what could not be read is not changed.
func answer(err error) (changed []string, _ error) {
	if errors.Is(err, errDiffers) || errors.Is(err, errForeign) {
		return []string{err.Error()}, nil
	}
	return nil, fmt.Errorf("nftables: check: %w", err)
}

func differs(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), errDiffers)
}

// Check names the first difference between the tables and what the last Sync left. It reads over netlink
// and runs no nft.
//
// If nobody has committed anything to nftables since (one question to the kernel), there is none.
// Otherwise Check compares every chain with its rules, every set and map, and the elements: all
// of them, if the two tables have up to about 50,000 in all, otherwise so many each time. Of a set or map that alone has
// more it looks up a sample, another one each time; the rest of that one is read by the next full Sync. Foreign objects
// beside ours are ignored, foreign elements in our sets and maps are differences.
func (b *Backend) Check(context.Context) (changed []string, err error) {
	if b.base == nil {
		return nil, nil
	}
	now, err := b.kernel.generation()
	if err != nil {
		return answer(err)
	}
	if now == b.verified {
		return nil, nil
	}
	for _, t := range b.tables {
		if err = b.checkTable(t); err != nil {
			return answer(fmt.Errorf("table %s %s: %w", t.nft, b.opts.Name, err))
		}
	}
	all, err := b.checkBoxes(now)
	if err != nil {
		return answer(err)
	}
	if all {
		b.verified = now
	}
	return nil, nil
}

// checkTable compares everything but the elements of Service ports.
func (b *Backend) checkTable(t *table) error {
	found, err := b.kernel.read(t.family, b.opts.Name)
	if err != nil {
		return err
	}
	if found == nil {
		return differs("the table is gone")
	}
	for name, print := range t.chains {
		if have, ok := found.chains[name]; !ok || have != print {
			return differs("chain %s", name)
		}
	}
	for name, box := range t.boxes {
		if have, ok := found.boxes[name]; !ok || have != t.info(box) {
			return differs("set or map %s", name)
		}
	}
	return b.checkConfig(t)
}

// checkConfig compares the sets of mere ranges, in which a range is two elements.
func (b *Backend) checkConfig(t *table) error {
	var have []elementID
	for _, name := range []string{boxPodCIDRs, boxServiceCIDRs, boxNodePortAddresses} {
		elements, err := b.kernel.elements(t.family, b.opts.Name, t.boxes[name])
		if err != nil {
			return err
		}
		for _, el := range elements {
			have = append(have, el.id)
		}
	}
	for _, el := range t.config {
		if !slices.Contains(have, el.id) {
			return differs("element %s of %s", el.id.key.src, el.id.box)
		}
	}
	if len(have) != len(t.config) {
		return differs("%d ranges, %d wanted", len(have), len(t.config))
	}
	return nil
}

// A lap is a walk through the sets and maps of all tables, over as many Checks as it needs.
type lap struct {
	generation uint32 // for which it counts: a commit of somebody else begins another one
	left       []stop // not yet read in it
	last       stop   // where the walk is: a new lap goes on from there
}

// A stop is a set or map on the way.
type stop struct {
	family string
	box    string
	small  bool // to be read first
}

func (s stop) compare(o stop) int {
	return slices.Compare([]string{s.family, s.box}, []string{o.family, o.box})
}

// checkBoxes goes on reading elements. All is true if since the lap began, and since the last commit of somebody
// else, every element was read and right.
func (b *Backend) checkBoxes(now uint32) (all bool, err error) {
	if b.lap.generation != now || len(b.lap.left) == 0 {
		b.lap.generation, b.lap.left = now, b.stops(b.lap.last)
	}
	for budget := b.checked; budget > 0 && len(b.lap.left) > 0; {
		s := b.lap.left[0]
		n, err := b.checkBox(s)
		if err != nil {
			return false, err
		}
		budget -= n + costOfBox
		b.lap.left = b.lap.left[1:]
		if !s.small {
			b.lap.last = s
		}
	}
	large := false
	for _, t := range b.tables {
		found, err := b.checkSample(t)
		if err != nil {
			return false, err
		}
		large = large || found
	}
	return len(b.lap.left) == 0 && !large, nil
}

// stops returns every set and map of which the sum is known, those after one first. Small ones that every
// table has come before all others, each time: source ranges hang on the smallest ones.
func (b *Backend) stops(after stop) []stop {
	var small, rest []stop
	for _, t := range b.tables {
		for name, bx := range t.boxes {
			_, private := privateBox(name, 0)
			s := stop{t.nft, name, !private && t.sums[name].n <= b.checked/100}
			switch {
			case bx.dynamic || bx.mereRanges():
			case s.small:
				small = append(small, s)
			default:
				rest = append(rest, s)
			}
		}
	}
	slices.SortFunc(rest, stop.compare)
	at, _ := slices.BinarySearchFunc(rest, after, stop.compare)
	if at < len(rest) && rest[at] == after {
		at++
	}
	return slices.Concat(small, rest[at:], rest[:at])
}

// checkBox reads a set or map and returns how many elements it has; of one that is too large, nothing.
func (b *Backend) checkBox(s stop) (int, error) {
	i := slices.IndexFunc(b.tables, func(t *table) bool { return t.nft == s.family })
	t := b.tables[i] // whoever changes the tables ends the lap
	bx, ok := t.boxes[s.box]
	if !ok || t.sums[s.box].n > b.checked {
		return 0, nil // it went with its Service port; or see checkSample
	}
	for again := false; ; again = true {
		have, err := b.sumOf(t, bx)
		if err != nil {
			return 0, err
		}
		if have == t.sums[s.box] {
			return have.n, nil
		}
		if again {
			return 0, differs("%d elements of %s %s are not the %d that were written", have.n, s.family, s.box, t.sums[s.box].n)
		}
		// The kernel makes room while we read, perhaps: a dump can then miss elements.
	}
}

// sumOf returns what the elements of a set or map add up to in the kernel.
func (b *Backend) sumOf(t *table, bx box) (sum, error) {
	elements, err := b.kernel.elements(t.family, b.opts.Name, bx)
	seen := make(map[elementID]bool, len(elements))
	var out sum
	for _, el := range elements {
		if !seen[el.id] {
			seen[el.id] = true
			out = out.add(t.sum(el))
		}
	}
	return out, err
}

// checkSample looks up elements of some Service ports in sets and maps that are too large to be read, and
// reports whether there are any such. It takes the ports in the random order of maps.
func (b *Backend) checkSample(t *table) (large bool, err error) {
	in := make(map[string]bool)
	for name, s := range t.sums {
		in[name] = s.n > b.checked
		large = large || in[name]
	}
	if !large {
		return false, nil
	}
	comp := compiler{layout: b.layout, f: t.family}
	left := sampledElements
	for k, s := range b.ports {
		if left <= 0 {
			break
		}
		if k.Family != t.ip {
			continue
		}
		p := comp.compile(s)
		elements := slices.DeleteFunc(slices.Concat(p.elements, p.counted), func(el element) bool { return !in[el.id.box] })
		rand.Shuffle(len(elements), func(i, j int) { elements[i], elements[j] = elements[j], elements[i] })
		elements = elements[:min(left, len(elements))]
		left -= max(1, len(elements))
		if err := b.checkElements(t, elements); err != nil {
			return true, err
		}
	}
	return true, nil
}

func (b *Backend) checkElements(t *table, elements []element) error {
	for _, el := range elements {
		have, ok, err := b.kernel.element(t.family, b.opts.Name, t.boxes[el.id.box], el.id.key)
		if err != nil {
			return err
		}
		if !ok || have.value != el.value {
			return differs("an element of %s", el.id.box)
		}
	}
	return nil
}
