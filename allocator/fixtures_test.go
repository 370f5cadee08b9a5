package allocator_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// Short forms for the tables of this package.
func addr(text string) netip.Addr       { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix   { return netip.MustParsePrefix(text) }
func owner(name string) allocator.Owner { return allocator.Owner{Namespace: "ns1", Name: name} }

// newPool returns a pool of cidr that must be valid.
func newPool(tb testing.TB, cidr string, opts allocator.Options) *allocator.Pool {
	tb.Helper()
	p, err := allocator.NewPool(prefix(cidr), opts)
	if err != nil {
		tb.Fatalf("NewPool(%s): %v", cidr, err)
	}
	return p
}

// newPorts returns a pool of the ports in text.
func newPorts(tb testing.TB, text string, opts allocator.Options) *allocator.PortPool {
	tb.Helper()
	r, err := allocator.ParsePortRange(text)
	if err != nil {
		tb.Fatalf("ParsePortRange(%q): %v", text, err)
	}
	return allocator.NewPortPool(r, opts)
}

// wantError checks that err wraps want, or is nil if want is.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// pickAll picks n times and returns the set of what came, which must be new.
func pickAll(t *testing.T, p *allocator.Pool, n int) map[netip.Addr]bool {
	t.Helper()
	got := map[netip.Addr]bool{}
	for i := range n {
		a, err := p.Pick(owner("web"))
		if err != nil {
			t.Fatalf("pick %d of %d: %v", i+1, n, err)
		}
		if got[a] {
			t.Fatalf("pick %d: %s came twice", i+1, a)
		}
		got[a] = true
	}
	return got
}

// wantRange checks that got is exactly the addresses from first to last.
func wantRange(t *testing.T, got map[netip.Addr]bool, first, last string) {
	t.Helper()
	n := 0
	for a := addr(first); a.Compare(addr(last)) <= 0; a = a.Next() {
		n++
		if !got[a] {
			t.Errorf("%s is missing", a)
		}
	}
	if len(got) != n {
		t.Errorf("got %d addresses, want the %d from %s to %s", len(got), n, first, last)
	}
}
