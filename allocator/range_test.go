package allocator_test

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// bounds renders a band as "first-last size", "" if it is empty.
func bounds(p *allocator.Pool, band allocator.Band) string {
	first, last, ok := p.Bounds(band)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s-%s %d", first, last, p.BandStats(band).Size)
}

func TestRanges(t *testing.T) {
	const unbuildable = "error"
	tests := []struct {
		cidr            string
		bitmap          uint64 // usable in column B
		static, dynamic string // column A; static is unbuildable if NewPool fails
	}{
		{"10.0.0.0/8", 16777214, "10.0.0.1-10.0.1.0 256", "10.0.1.1-10.255.255.254 16776958"},
		{"10.0.0.0/12", 1048574, "10.0.0.1-10.0.1.0 256", "10.0.1.1-10.15.255.254 1048318"},
		{"192.168.0.0/16", 65534, "192.168.0.1-192.168.1.0 256", "192.168.1.1-192.168.255.254 65278"},
		{"10.96.0.0/20", 4094, "10.96.0.1-10.96.1.0 256", "10.96.1.1-10.96.15.254 3838"},
		{"192.168.0.0/22", 1022, "192.168.0.1-192.168.0.64 64", "192.168.0.65-192.168.3.254 958"},
		{"10.0.0.0/23", 510, "10.0.0.1-10.0.0.32 32", "10.0.0.33-10.0.1.254 478"},
		{"10.0.0.0/24", 254, "10.0.0.1-10.0.0.16 16", "10.0.0.17-10.0.0.254 238"},
		{"192.168.1.0/25", 126, "192.168.1.1-192.168.1.16 16", "192.168.1.17-192.168.1.126 110"},
		{"192.168.0.0/26", 62, "192.168.0.1-192.168.0.16 16", "192.168.0.17-192.168.0.62 46"},
		{"10.0.0.0/27", 30, "10.0.0.1-10.0.0.16 16", "10.0.0.17-10.0.0.30 14"},
		{"10.0.0.0/28", 14, "", "10.0.0.1-10.0.0.14 14"},
		{"10.0.0.0/29", 6, "", "10.0.0.1-10.0.0.6 6"},
		{"10.0.0.0/30", 2, "", "10.0.0.1-10.0.0.2 2"},
		{"10.0.0.0/31", 0, "", ""},
		{"10.0.0.0/32", 0, "", ""},
		{"255.255.255.255/32", 0, unbuildable, ""},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", 0, unbuildable, ""},
		{"0.0.0.0/1", 0, "", "0.0.0.1-127.255.255.254 2147483646"},
		{"0.0.0.0/0", 0, "", "0.0.0.1-255.255.255.254 4294967294"},
		{"2001:db8::/48", 65535, unbuildable, ""},
		{"2001:db8::/64", 65535, "2001:db8::1-2001:db8::100 256", "2001:db8::101-2001:db8::ffff:ffff:ffff:ffff 18446744073709551359"},
		{"2001:db8::/108", 65535, "2001:db8::1-2001:db8::100 256", "2001:db8::101-2001:db8::f:ffff 1048319"},
		{"2001:db8::/112", 65535, "2001:db8::1-2001:db8::100 256", "2001:db8::101-2001:db8::ffff 65279"},
		{"2001:db8::/116", 4095, "2001:db8::1-2001:db8::100 256", "2001:db8::101-2001:db8::fff 3839"},
		{"2001:db8::/118", 1023, "2001:db8::1-2001:db8::40 64", "2001:db8::41-2001:db8::3ff 959"},
		{"2001:db8::/120", 255, "2001:db8::1-2001:db8::10 16", "2001:db8::11-2001:db8::ff 239"},
		{"2001:db8::/122", 63, "2001:db8::1-2001:db8::10 16", "2001:db8::11-2001:db8::3f 47"},
		{"2001:db8::/123", 31, "2001:db8::1-2001:db8::10 16", "2001:db8::11-2001:db8::1f 15"},
		{"2001:db8::/124", 15, "", "2001:db8::1-2001:db8::f 15"},
		{"2001:db8::/126", 3, "", "2001:db8::1-2001:db8::3 3"},
		{"2001:db8::/127", 1, "", "2001:db8::1-2001:db8::1 1"},
		{"2001:db8::/128", 0, "", ""},
	}
	for _, tt := range tests {
		t.Run("1.9 "+tt.cidr, func(t *testing.T) {
			b, err := allocator.NewBitmapPool(prefix(tt.cidr), allocator.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Stats().Size; got != tt.bitmap {
				t.Errorf("bitmap: %d usable, want %d", got, tt.bitmap)
			}
			p, err := allocator.NewPool(prefix(tt.cidr), allocator.Options{})
			if tt.static == unbuildable {
				var e *allocator.Error
				if !errors.As(err, &e) || e.Value != tt.cidr {
					t.Errorf("NewPool = %v, want an error that names the prefix", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := bounds(p, allocator.Static); got != tt.static {
				t.Errorf("static band %q, want %q", got, tt.static)
			}
			if got := bounds(p, allocator.Dynamic); got != tt.dynamic {
				t.Errorf("dynamic band %q, want %q", got, tt.dynamic)
			}
			if s := p.Stats(); s.Free != s.Size {
				t.Errorf("%d of %d are free in an empty pool", s.Free, s.Size)
			}
		})
	}
}

func TestBitmapRanges(t *testing.T) {
	t.Run("1.9 2001:db8::/48 has the bands of the first 65535", func(t *testing.T) {
		p, err := allocator.NewBitmapPool(prefix("2001:db8::/48"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bounds(p, allocator.Dynamic), "2001:db8::101-2001:db8::ffff 65279"; got != want {
			t.Errorf("dynamic band %q, want %q", got, want)
		}
	})
	t.Run("1.9 2001:db8::1:0 is out of range in a bitmap of a /108", func(t *testing.T) {
		p, err := allocator.NewBitmapPool(prefix("2001:db8::/108"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, "claim ::1:0", p.Claim(addr("2001:db8::1:0"), owner("a")), allocator.ErrOutOfRange)
		wantError(t, "claim ::ffff", p.Claim(addr("2001:db8::ffff"), owner("a")), nil)
	})
}

func TestRangesWithoutAddress(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/31", "10.0.0.0/32", "2001:db8::/128"} {
		t.Run("1.9 #24 "+cidr+" is full and has no address", func(t *testing.T) {
			p := newPool(t, cidr, allocator.Options{})
			_, err := p.Pick(owner("a"))
			wantError(t, "pick", err, allocator.ErrFull)
			wantError(t, "claim", p.Claim(prefix(cidr).Addr(), owner("a")), allocator.ErrOutOfRange)
			wantError(t, "claim next", p.Claim(prefix(cidr).Addr().Next(), owner("a")), allocator.ErrOutOfRange)
		})
	}
}

// TestSmallRanges is exhaustive: every prefix length of both families for which
// a range can be filled in a test.
func TestSmallRanges(t *testing.T) {
	check := func(t *testing.T, cidr netip.Prefix, edges uint64) {
		t.Helper()
		host := cidr.Addr().BitLen() - cidr.Bits()
		want := max(1<<host, edges) - edges
		offset := uint64(0)
		if size := uint64(1) << host; size > 16 {
			offset = min(max(16, size/16), 256)
		}
		p := newPool(t, cidr.String(), allocator.Options{})
		if got := p.Stats().Size; got != want {
			t.Errorf("usable %d, want %d", got, want)
		}
		if got := p.BandStats(allocator.Static).Size; got != offset {
			t.Errorf("offset %d, want %d", got, offset)
		}
		for i := range want {
			a, err := p.Pick(owner("a"))
			if err != nil {
				t.Fatalf("pick %d: %v", i+1, err)
			}
			_, lastStatic, ok := p.Bounds(allocator.Static)
			if inStatic := ok && a.Compare(lastStatic) <= 0; inStatic != (i >= want-offset) {
				t.Fatalf("pick %d is %s: the dynamic band must come first", i+1, a)
			}
			if !cidr.Contains(a) || a == cidr.Addr() {
				t.Fatalf("pick %d is %s: not usable", i+1, a)
			}
		}
		_, err := p.Pick(owner("a"))
		wantError(t, "pick when full", err, allocator.ErrFull)
	}
	for bits := 20; bits <= 32; bits++ {
		t.Run(fmt.Sprintf("#24 IPv4 /%d", bits), func(t *testing.T) {
			check(t, netip.PrefixFrom(addr("10.96.0.0"), bits), 2)
		})
	}
	for bits := 116; bits <= 128; bits++ {
		t.Run(fmt.Sprintf("#24 IPv6 /%d", bits), func(t *testing.T) {
			check(t, netip.PrefixFrom(addr("fd00:10:96::"), bits), 1)
		})
	}
}

func TestWideIPv6(t *testing.T) {
	cidr := prefix("fd00:10:96::/64")
	t.Run("#23 forced offsets stay inside the prefix", func(t *testing.T) {
		for _, force := range []uint64{0, 1, math.MaxInt64, 1 << 63, math.MaxUint64 - 1} {
			p := newPool(t, cidr.String(), allocator.Options{Rand: func(uint64) uint64 { return force }})
			seen := map[netip.Addr]bool{}
			for range 100 {
				a, err := p.Pick(owner("a"))
				if err != nil {
					t.Fatal(err)
				}
				if !cidr.Contains(a) || a == cidr.Addr() || seen[a] {
					t.Fatalf("offset %d gave %s", force, a)
				}
				seen[a] = true
			}
		}
	})
	t.Run("#23 10000 random draws are distinct addresses of the dynamic band", func(t *testing.T) {
		p := newPool(t, cidr.String(), allocator.Options{})
		for a := range pickAll(t, p, 10000) {
			if !cidr.Contains(a) || a.Compare(addr("fd00:10:96::100")) <= 0 {
				t.Errorf("%s is not in the dynamic band", a)
			}
		}
	})
	t.Run("#23 a prefix shorter than /64 is refused", func(t *testing.T) {
		_, err := allocator.NewPool(prefix("fd00:10:96::/63"), allocator.Options{})
		if err == nil {
			t.Error("NewPool took a /63")
		}
	})
	t.Run("#39 free addresses of a /64 do not overflow", func(t *testing.T) {
		p := newPool(t, cidr.String(), allocator.Options{})
		pickAll(t, p, 3)
		if got, want := p.Stats().Free, uint64(math.MaxUint64-3); got != want {
			t.Errorf("Free = %d, want %d", got, want)
		}
	})
}

func TestOtherRanges(t *testing.T) {
	t.Run("1.2 17 addresses of a start-stop range have a band of 16", func(t *testing.T) {
		p, err := allocator.NewRangePool(addr("10.0.0.10"), addr("10.0.0.26"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bounds(p, allocator.Dynamic), "10.0.0.26-10.0.0.26 1"; got != want {
			t.Errorf("dynamic band %q, want %q", got, want)
		}
		if got, want := p.Range(), "10.0.0.10-10.0.0.26"; got != want {
			t.Errorf("Range = %q, want %q", got, want)
		}
	})
	t.Run("6.3 first and last address and /32 on request", func(t *testing.T) {
		for cidr, want := range map[string]string{
			"192.0.2.7/32": "192.0.2.7-192.0.2.7 1", "192.0.2.0/30": "192.0.2.0-192.0.2.3 4",
			"2001:db8::1/128": "2001:db8::1-2001:db8::1 1",
		} {
			p, err := allocator.NewEdgePool(prefix(cidr), allocator.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := bounds(p, allocator.Dynamic); got != want {
				t.Errorf("%s: %q, want %q", cidr, got, want)
			}
		}
	})
	t.Run("6.3 a range may cross 64-bit boundaries", func(t *testing.T) {
		p, err := allocator.NewRangePool(addr("2001:db8::ffff:ffff:ffff:fffe"), addr("2001:db8:0:1::1"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantRange(t, pickAll(t, p, 4), "2001:db8::ffff:ffff:ffff:fffe", "2001:db8:0:1::1")
	})
	bad := [][2]string{{"10.0.0.2", "10.0.0.1"}, {"10.0.0.1", "::1"}, {"::", "ffff::"}}
	for _, b := range bad {
		t.Run("6.3 no range from "+b[0]+" to "+b[1], func(t *testing.T) {
			if _, err := allocator.NewRangePool(addr(b[0]), addr(b[1]), allocator.Options{}); err == nil {
				t.Error("NewRangePool took it")
			}
		})
	}
	t.Run("6.3 no prefix", func(t *testing.T) {
		for _, newPool := range []func(netip.Prefix, allocator.Options) (*allocator.Pool, error){
			allocator.NewPool, allocator.NewBitmapPool, allocator.NewEdgePool,
		} {
			if _, err := newPool(netip.Prefix{}, allocator.Options{}); err == nil {
				t.Error("a pool of the zero Prefix")
			}
		}
		if _, err := allocator.NewEdgePool(prefix("2001:db8::/64"), allocator.Options{}); err == nil {
			t.Error("an edge pool of a /64")
		}
	})
}
