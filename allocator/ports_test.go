package allocator_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

func TestPortBands(t *testing.T) {
	tests := []struct {
		ports           string
		size            int
		static, dynamic string
	}{
		{"30000-32767", 2768, "30000-30085 86", "30086-32767 2682"},
		{"20000-32767", 12768, "20000-20127 128", "20128-32767 12640"},
		{"32567-32767", 201, "32567-32582 16", "32583-32767 185"},
		{"30000+9", 10, "", "30000-30009 10"},
		{"30000+15", 16, "", "30000-30015 16"},
		{"30000+16", 17, "30000-30015 16", "30016-30016 1"},
		{"30000+127", 128, "30000-30015 16", "30016-30127 112"},
		{"30000+2047", 2048, "30000-30063 64", "30064-32047 1984"},
		{"30000+4095", 4096, "30000-30127 128", "30128-34095 3968"},
		{"30000+8191", 8192, "30000-30127 128", "30128-38191 8064"},
	}
	for _, tt := range tests {
		t.Run("3.1 "+tt.ports, func(t *testing.T) {
			p := newPorts(t, tt.ports, allocator.Options{})
			if got := p.Range().Size(); got != tt.size {
				t.Errorf("Size = %d, want %d", got, tt.size)
			}
			for band, want := range map[allocator.Band]string{allocator.Static: tt.static, allocator.Dynamic: tt.dynamic} {
				got := ""
				if first, last, ok := p.Bounds(band); ok {
					got = fmt.Sprintf("%d-%d %d", first, last, p.BandStats(band).Size)
				}
				if got != want {
					t.Errorf("%s band %q, want %q", band, got, want)
				}
			}
		})
	}
}

func TestParsePortRange(t *testing.T) {
	tests := []struct {
		text, want string
		ok         bool
	}{
		{"30000-32767", "30000-32767", true},
		{"30000+2767", "30000-32767", true},
		{"30000", "30000-30000", true},
		{"", "", true},
		{" 30000-30010 ", "30000-30010", true},
		{"1 - 2", "", false},
		{"1-2-3", "", false},
		{"-5", "", false},
		{"1+2-3", "", false},
		{"1-2+3", "", false},
		{"70000", "", false},
		{"65000+1000", "", false},
		{"5-3", "", false},
		{"0-10", "", false}, // the API server takes it
		{"+5", "", false},
		{"0x10", "", false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("3.2 %q", tt.text), func(t *testing.T) {
			got, err := allocator.ParsePortRange(tt.text)
			if (err == nil) != tt.ok || got.String() != tt.want {
				t.Errorf("got %q, %v, want %q, ok %v", got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestPortPool(t *testing.T) {
	t.Run("3.2 an empty range is always full", func(t *testing.T) {
		for _, p := range []*allocator.PortPool{
			newPorts(t, "", allocator.Options{}),
			allocator.NewPortPool(allocator.PortRange{First: 5, Last: 3}, allocator.Options{}),
		} {
			_, err := p.Pick(owner("web"))
			wantError(t, "Pick", err, allocator.ErrFull)
			wantError(t, "Claim", p.Claim(0, owner("web")), allocator.ErrOutOfRange)
		}
	})
	t.Run("3.3 errors and states", func(t *testing.T) {
		p := newPorts(t, "30000-32767", allocator.Options{})
		err := p.Claim(29999, owner("web"))
		wantError(t, "out of range", err, allocator.ErrOutOfRange)
		if !strings.HasSuffix(err.Error(), "The range of valid ports is 30000-32767") {
			t.Errorf("text is %q", err)
		}
		wantError(t, "first", p.Claim(30000, owner("web")), nil)
		wantError(t, "again", p.Claim(30000, owner("web")), allocator.ErrTaken)
		wantError(t, "reserve", p.Reserve(30000, owner("web")), nil)
		wantError(t, "other", p.Reserve(30000, owner("db")), allocator.ErrTaken)
		wantError(t, "transfer", p.Transfer(30000, owner("web"), owner("db")), nil)
		wantError(t, "not the owner", p.Release(30000, owner("web")), allocator.ErrNotOwner)
		wantError(t, "release", p.Release(30000, owner("db")), nil)
		wantError(t, "release out of range", p.Release(1, owner("db")), nil)
		wantError(t, "exclude", p.Exclude(30001), nil)
		wantError(t, "excluded", p.Claim(30001, owner("db")), allocator.ErrReserved)
		if p.Has(30000) || p.Has(1) {
			t.Error("released and foreign ports count as held")
		}
		if got, want := p.Stats(), (allocator.Stats{Size: 2768, Free: 2767, Excluded: 1}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
	t.Run("3.1 the dynamic band first", func(t *testing.T) {
		p := newPorts(t, "30000-30019", allocator.Options{})
		for i := range 20 {
			port, err := p.Pick(owner("web"))
			if err != nil || (port < 30016) != (i >= 4) {
				t.Errorf("pick %d = %d, %v", i+1, port, err)
			}
		}
		want := uint16(30000)
		for port := range p.All() {
			if port != want {
				t.Errorf("All gives %d, want %d", port, want)
			}
			want++
		}
	})
	t.Run("1.7 bit 0 is the base", func(t *testing.T) {
		p := newPorts(t, "30000-32767", allocator.Options{})
		wantError(t, "Claim", p.Claim(30000, owner("web")), nil)
		wantError(t, "Claim", p.Claim(30009, owner("web")), nil)
		ra, err := p.Allocation()
		if err != nil || ra.Range != "30000-32767" || string(ra.Data) != "\x02\x01" {
			t.Errorf("Allocation = %+v, %v", ra, err)
		}
		wantError(t, "restore", p.RestoreAllocation(&corev1.RangeAllocation{Range: "30000-32767", Data: []byte{4}}), nil)
		if s := p.Stats(); s.Used != 1 || !p.Has(30002) {
			t.Errorf("stats %+v, want 30002 in use", s)
		}
	})
}
