package ip_test

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/vipkit/vipkit/internal/ip"
)

func TestFamily(t *testing.T) {
	tests := []struct {
		addr netip.Addr
		want corev1.IPFamily
	}{
		{netip.Addr{}, ""},
		{netip.MustParseAddr("10.0.0.1"), corev1.IPv4Protocol},
		{netip.MustParseAddr("::ffff:10.0.0.1"), corev1.IPv4Protocol},
		{netip.MustParseAddr("::10.0.0.1"), corev1.IPv6Protocol},
		{netip.MustParseAddr("fe80::1%eth0"), corev1.IPv6Protocol},
	}
	for _, tt := range tests {
		if got := ip.Family(tt.addr); got != tt.want {
			t.Errorf("Family(%s) = %q, want %q", tt.addr, got, tt.want)
		}
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct{ in, want string }{
		{"10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1%eth0", "10.0.0.1"},
		{"fe80::1%eth0", "fe80::1"},
	}
	for _, tt := range tests {
		if got := ip.Canonical(netip.MustParseAddr(tt.in)); got.String() != tt.want {
			t.Errorf("Canonical(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
	if got := ip.Canonical(netip.Addr{}); got.IsValid() {
		t.Errorf("Canonical of no address is %s", got)
	}
}

func TestCanonicalPrefix(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"host bits", "10.1.2.3/8", "10.0.0.0/8"},
		{"mapped", "::ffff:10.1.2.3/104", "10.0.0.0/8"},
		{"all mapped", "::ffff:1.2.3.4/96", "0.0.0.0/0"},
		{"mapped and more", "::ffff:1.2.3.4/95", "::fffe:0:0/95"},
		{"IPv6", "2001:db8::1/32", "2001:db8::/32"},
	}
	for _, tt := range tests {
		if got := ip.CanonicalPrefix(netip.MustParsePrefix(tt.in)); got.String() != tt.want {
			t.Errorf("%s: CanonicalPrefix(%s) = %s, want %s", tt.name, tt.in, got, tt.want)
		}
	}
	for _, p := range []netip.Prefix{{}, netip.PrefixFrom(netip.MustParseAddr("10.0.0.1"), 33), netip.PrefixFrom(netip.MustParseAddr("::ffff:10.0.0.1"), -1)} {
		if got := ip.CanonicalPrefix(p); got != (netip.Prefix{}) {
			t.Errorf("CanonicalPrefix of an invalid range is %s", got)
		}
	}
}

func TestParseAddr(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"IPv4", "10.0.0.1", "10.0.0.1"},
		{"leading zeros are decimal", "010.000.000.010", "10.0.0.10"},
		{"mapped", "::ffff:10.0.0.1", "10.0.0.1"},
		{"mapped with leading zeros", "::ffff:010.0.0.1", "10.0.0.1"},
		{"IPv6", "2001:DB8:0::7", "2001:db8::7"},
		{"zone", "fe80::1%eth0", "no"},
		{"zone of a mapped address", "::ffff:10.0.0.1%eth0", "no"},
		{"empty", "", "no"},
		{"space", " 10.0.0.1", "no"},
		{"a range", "10.0.0.1/32", "no"},
		{"too large", "10.0.0.256", "no"},
	}
	for _, tt := range tests {
		a, ok := ip.ParseAddr(tt.in)
		got := "no"
		if ok {
			got = a.String()
		}
		if got != tt.want || ok != a.IsValid() {
			t.Errorf("%s: ParseAddr(%q) = %s, %v, want %s", tt.name, tt.in, a, ok, tt.want)
		}
	}
}

func TestSameAddr(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1", "::ffff:010.0.0.1", true},
		{"2001:DB8:0::7", "2001:db8::7", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"None", "None", true},
		{"None", "", false},
		{"10.0.0.1", "None", false},
	}
	for _, tt := range tests {
		if ip.SameAddr(tt.a, tt.b) != tt.want || ip.SameAddr(tt.b, tt.a) != tt.want {
			t.Errorf("SameAddr(%q, %q) is not %v", tt.a, tt.b, tt.want)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"host bits", "10.1.2.3/8", "10.0.0.0/8"},
		{"leading zeros are decimal", "010.1.2.3/08", "10.0.0.0/8"},
		{"mapped", "::ffff:10.1.2.3/104", "10.0.0.0/8"},
		{"mapped with leading zeros", "::ffff:010.1.2.3/104", "10.0.0.0/8"},
		{"mapped and more", "::ffff:10.0.0.0/90", "::ffc0:0:0/90"},
		{"everything", "::/0", "::/0"},
		{"zone", "fe80::1%eth0/10", "no"},
		{"an address", "10.0.0.1", "no"},
		{"space", "10.0.0.0/8 ", "no"},
		{"too long", "10.0.0.0/33", "no"},
		{"empty", "", "no"},
	}
	for _, tt := range tests {
		p, ok := ip.ParsePrefix(tt.in)
		got := "no"
		if ok {
			got = p.String()
		}
		if got != tt.want || ok != p.IsValid() {
			t.Errorf("%s: ParsePrefix(%q) = %s, %v, want %s", tt.name, tt.in, p, ok, tt.want)
		}
	}
}

func TestComparePrefixes(t *testing.T) {
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.1.0.0/16"),
		netip.MustParsePrefix("::/0"), netip.MustParsePrefix("2001:db8::/32"),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, ip.ComparePrefixes)
	if !slices.Equal(got, want) {
		t.Errorf("sorted: %v, want %v", got, want)
	}
	if ip.ComparePrefixes(want[0], want[0]) != 0 {
		t.Error("a range does not equal itself")
	}
}

func TestCheckFamilies(t *testing.T) {
	tests := []struct {
		list []corev1.IPFamily
		want string
	}{
		{nil, ""},
		{[]corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, ""},
		{[]corev1.IPFamily{}, "option Families: empty"},
		{[]corev1.IPFamily{corev1.IPv4Protocol, "IPv5"}, `option Families: unknown family "IPv5"`},
	}
	for _, tt := range tests {
		got := ""
		if err := ip.CheckFamilies(tt.list); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("CheckFamilies(%q) = %q, want %q", tt.list, got, tt.want)
		}
	}
}

// FuzzParse holds both parsers against the API server's: they read the same texts, and what they return is
// canonical and means the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "010.0.0.1/08", "::ffff:10.1.2.3/104", "::ffff:0:0/96", "::ffff:1.2.3.4/95", "fe80::1%eth0", "::/0", "1.2.3.4/33"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		theirs := netutils.ParseIPSloppy(text)
		a, ok := ip.ParseAddr(text)
		if ok != (theirs != nil) || ok && a.String() != theirs.String() {
			t.Errorf("ParseAddr(%q) = %s, %v; the API server reads %s", text, a, ok, theirs)
		}
		if ok && (a != ip.Canonical(a) || a.Is4() != (ip.Family(a) == corev1.IPv4Protocol)) {
			t.Errorf("ParseAddr(%q) = %s: not canonical", text, a)
		}
		_, ipnet, err := netutils.ParseCIDRSloppy(text)
		p, ok := ip.ParsePrefix(text)
		if ok != (err == nil) || ok && p.Addr().String() != netip.MustParseAddr(ipnet.IP.String()).Unmap().String() {
			t.Errorf("ParsePrefix(%q) = %s, %v; the API server reads %v, %v", text, p, ok, ipnet, err)
		}
		if ok && (p != ip.CanonicalPrefix(p) || !p.Contains(p.Addr())) {
			t.Errorf("ParsePrefix(%q) = %s: not canonical", text, p)
		}
	})
}
