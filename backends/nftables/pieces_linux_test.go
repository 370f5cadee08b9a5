package nftables

import (
	"maps"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// An inspector looks at the tables whenever the backend asks for the generation, which it
// does before and after each of its commits.
type inspector struct {
	kernel
	tb   testing.TB
	b    *Backend
	plan *plan.Plan
	seen []int // Service ports in the kernel, each time that there were more
}

func (i *inspector) generation() (uint32, error) {
	i.inspect()
	return i.kernel.generation()
}

// inspect wants every Service port of which the kernel has an element to have all.
func (i *inspector) inspect() {
	i.tb.Helper()
	whole := 0
	for _, f := range families() {
		have := i.have(f)
		for port := range i.plan.All() {
			if port.Family != f.ip || len(have) == 0 {
				continue
			}
			p := compiler{layout: newLayout(i.b.opts, i.plan), f: f}.compile(assignSlots(nil, port))
			n := 0
			for _, el := range p.elements {
				if have[el.id] {
					n++
				}
			}
			if n > 0 {
				whole++
			}
			if n > 0 && n < len(p.elements) {
				i.lookUp(f, port, p.elements, have)
			}
		}
	}
	if last := len(i.seen) - 1; whole > 0 && (last < 0 || whole > i.seen[last]) {
		i.seen = append(i.seen, whole)
	}
}

// lookUp fails if the kernel lacks an element. A dump that takes several messages may miss one
// while the kernel makes its table of them larger; a look by key does not.
func (i *inspector) lookUp(f *family, port *plan.Port, elements []element, have map[elementID]bool) {
	i.tb.Helper()
	known := make(map[string]box)
	for _, b := range boxes() {
		known[b.name] = b
	}
	for _, el := range elements {
		if have[el.id] {
			continue
		}
		b, common := known[el.id.box]
		if !common {
			b, _ = privateBox(el.id.box, 0)
		}
		if _, ok, err := i.element(f, "vipkit", b, el.id.key); !ok || err != nil {
			i.tb.Fatalf("#66 %s %s has not all of %d elements: %+v is missing, %v", port.PortName, f.ip, len(elements), el.id, err)
		}
	}
}

// have returns the elements that the kernel has.
func (i *inspector) have(f *family) map[elementID]bool {
	i.tb.Helper()
	out := make(map[elementID]bool)
	found, err := i.read(f, "vipkit")
	if err != nil {
		i.tb.Fatal(err)
	}
	if found == nil {
		return out
	}
	known := make(map[string]box)
	for _, b := range boxes() {
		known[b.name] = b
	}
	for name := range found.boxes {
		b, ok := known[name]
		if !ok {
			b, ok = privateBox(name, 0)
		}
		if !ok || b.dynamic {
			continue
		}
		elements, err := i.elements(f, "vipkit", b)
		if err != nil {
			i.tb.Fatal(err)
		}
		for _, el := range elements {
			out[el.id] = true
		}
	}
	return out
}

// TestFirstSyncInPieces cuts a large first sync, so that the kernel is not held for long, and finds
// every Service whole after each piece.
func TestFirstSyncInPieces(t *testing.T) {
	inNetNS(t)
	in, more := many(2_500), with(everything()...)
	maps.Copy(in.Services, more.Services)
	maps.Copy(in.Endpoints, more.Endpoints)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	next, _ := w.plan.Update(in)
	i := &inspector{kernel: b.kernel, tb: t, b: b, plan: next}
	b.kernel = i
	w.sync(b, in)
	if len(i.seen) < 2 {
		t.Errorf("#66 the Service ports came in %d pieces: %v", len(i.seen), i.seen)
	}
	b.kernel = i.kernel
	w.wantSettled(Options{})
}
