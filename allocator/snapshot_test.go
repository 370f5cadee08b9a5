package allocator_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// ones returns the data of a RangeAllocation with the lowest n bits set.
func ones(n int) []byte {
	data := make([]byte, (n+7)/8)
	for i := range n {
		data[len(data)-1-i/8] |= 1 << (i % 8)
	}
	return data
}

func TestAllocationSnapshots(t *testing.T) {
	allocation := func(t *testing.T, p *allocator.Pool) *corev1.RangeAllocation {
		t.Helper()
		ra, err := p.Allocation()
		if err != nil {
			t.Fatal(err)
		}
		return ra
	}
	t.Run("1.9 empty gives zero bytes", func(t *testing.T) {
		ra := allocation(t, newPool(t, "10.0.0.0/24", allocator.Options{}))
		if len(ra.Data) != 0 || ra.Range != "10.0.0.0/24" {
			t.Errorf("got %q %x", ra.Range, ra.Data)
		}
	})
	t.Run("1.9 used .1 .3 .10 gives 02 05", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		for _, a := range []string{"10.0.0.1", "10.0.0.3", "10.0.0.10"} {
			wantError(t, "Claim", p.Claim(addr(a), owner("web")), nil)
		}
		if got, want := allocation(t, p).Data, []byte{0x02, 0x05}; !bytes.Equal(got, want) {
			t.Errorf("data %x, want %x", got, want)
		}
	})
	t.Run("1.7 the fifth bit is .5", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/8", allocator.Options{})
		wantError(t, "restore", p.RestoreAllocation(&corev1.RangeAllocation{Range: "10.0.0.0/8", Data: []byte{1 << 4}}), nil)
		if !p.Has(addr("10.0.0.5")) {
			t.Error("10.0.0.5 is not in use")
		}
	})
	t.Run("1.9 .17-.254 used via restore, pick from .1-.16", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		data := ones(254)
		data[len(data)-1], data[len(data)-2] = 0, 0 // .1-.8, .9-.16
		wantError(t, "restore", p.RestoreAllocation(&corev1.RangeAllocation{Range: "10.0.0.0/24", Data: data}), nil)
		a, err := p.Pick(owner("web"))
		if err != nil || a.Compare(addr("10.0.0.16")) > 0 {
			t.Errorf("Pick = %s, %v, want one of .1-.16", a, err)
		}
	})
	t.Run("1.9 128 picks, snapshot, new pool from it", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		want := pickAll(t, p, 128)
		q := newPool(t, "10.0.0.0/24", allocator.Options{})
		wantError(t, "restore", q.RestoreAllocation(allocation(t, p)), nil)
		if s := q.Stats(); s.Used != 128 || s.Free != 126 {
			t.Errorf("stats %+v, want 128 used, 126 free", s)
		}
		for a := range want {
			if o, ok := q.Owner(a); !ok || o != (allocator.Owner{}) {
				t.Errorf("Owner(%s) = %v, %v, want held by nobody in particular", a, o, ok)
			}
		}
	})
}

func TestAllocationRestoreRefuses(t *testing.T) {
	tests := []struct {
		name string
		ra   corev1.RangeAllocation
		want error
	}{
		{"1.9 another range", corev1.RangeAllocation{Range: "10.0.1.0/24"}, allocator.ErrMismatch},
		{"1.9 300 ones in a range of 254", corev1.RangeAllocation{Range: "10.0.0.0/24", Data: ones(300)}, allocator.ErrCorrupt},
		{"1.9 the bit of the broadcast address", corev1.RangeAllocation{Range: "10.0.0.0/24", Data: ones(255)}, allocator.ErrCorrupt},
		{"1.3 an excluded address", corev1.RangeAllocation{Range: "10.0.0.0/24", Data: ones(254)}, allocator.ErrReserved},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, "10.0.0.0/24", allocator.Options{})
			wantError(t, "Exclude", p.Exclude(addr("10.0.0.77")), nil)
			pickAll(t, p, 3)
			before := p.Stats()
			wantError(t, "restore", p.RestoreAllocation(&tt.ra), tt.want)
			if got := p.Stats(); got != before {
				t.Errorf("stats %+v, want unchanged %+v", got, before)
			}
		})
	}
	t.Run("1.7 an address beyond the first 65535 has no bit", func(t *testing.T) {
		p := newPool(t, "2001:db8::/108", allocator.Options{})
		wantError(t, "Claim", p.Claim(addr("2001:db8::1:0"), owner("web")), nil)
		if ra, err := p.Allocation(); err == nil {
			t.Errorf("got %d bytes, want an error", len(ra.Data))
		}
	})
	t.Run("1.7 ranges that no API server has", func(t *testing.T) {
		p, err := allocator.NewEdgePool(prefix("10.0.0.0/24"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Allocation(); err == nil {
			t.Error("snapshot of a pool with edges")
		}
		if err := p.RestoreAllocation(&corev1.RangeAllocation{Range: "10.0.0.0/24"}); err == nil {
			t.Error("restore of a pool with edges")
		}
	})
}

func TestBinarySnapshots(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/16", "2001:db8::/64"} {
		t.Run("6.2 owners and addresses survive in "+cidr, func(t *testing.T) {
			p, q := newPool(t, cidr, allocator.Options{}), newPool(t, cidr, allocator.Options{})
			pickAll(t, p, 500)
			wantError(t, "Claim", p.Claim(prefix(cidr).Addr().Next(), allocator.Owner{}), nil)
			data, err := p.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, "Exclude", q.Exclude(prefix(cidr).Addr().Next().Next()), nil)
			wantError(t, "Unmarshal", q.UnmarshalBinary(data), nil)
			n := 0
			for a, o := range p.All() {
				n++
				if got, ok := q.Owner(a); !ok || got != o {
					t.Errorf("Owner(%s) = %v, %v, want %v", a, got, ok, o)
				}
			}
			if s := q.Stats(); n != 501 || s.Used != 501 || s.Excluded != 1 || s.Free != s.Size-502 {
				t.Errorf("%d addresses, stats %+v", n, s)
			}
		})
	}
	t.Run("6.2 of ports", func(t *testing.T) {
		p, q := newPorts(t, "30000-32767", allocator.Options{}), newPorts(t, "30000-32767", allocator.Options{})
		wantError(t, "Claim", p.Claim(30080, owner("web")), nil)
		data, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, "Unmarshal", q.UnmarshalBinary(data), nil)
		if o, ok := q.Owner(30080); !ok || o != owner("web") {
			t.Errorf("Owner = %v, %v", o, ok)
		}
	})
}

// sealed appends the right checksum to data.
func sealed(data []byte) []byte {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return binary.BigEndian.AppendUint32(bytes.Clone(data), sum)
}

func TestBinaryRestoreRefuses(t *testing.T) {
	p := newPool(t, "10.0.0.0/28", allocator.Options{})
	pickAll(t, p, 5)
	good, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	header := "VIPKIT-POOL\x01\x0b10.0.0.0/28\x0e" // 14 addresses
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"6.2 nothing", nil, allocator.ErrCorrupt},
		{"6.2 another version", append([]byte("VIPKIT-POOL\x02"), good[12:]...), allocator.ErrCorrupt},
		{"6.2 cut off", good[:len(good)-1], allocator.ErrCorrupt},
		{"6.2 one bit wrong", append([]byte("VIPKIT-POOL\x01\x0a"), good[13:]...), allocator.ErrCorrupt},
		{"6.2 another range", sealed([]byte("VIPKIT-POOL\x01\x0b10.0.1.0/28\x0e\x00\x00\x00")), allocator.ErrMismatch},
		{"6.2 an address beyond the range", sealed([]byte(header + "\x01\x0d\x02\x00\x00")), allocator.ErrCorrupt},
		{"6.2 an empty run", sealed([]byte(header + "\x01\x00\x00\x00\x00")), allocator.ErrCorrupt},
		{"6.2 an owner of a free address", sealed([]byte(header + "\x01\x00\x01\x01\x01n\x01s\x00\x01\x05\x00")), allocator.ErrCorrupt},
		{"6.2 an unknown owner", sealed([]byte(header + "\x01\x00\x01\x00\x01\x00\x00")), allocator.ErrCorrupt},
		{"6.2 data after the end", sealed([]byte(header + "\x00\x00\x00\x00")), allocator.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantError(t, "Unmarshal", p.UnmarshalBinary(tt.data), tt.want)
			if got := p.Stats().Used; got != 5 {
				t.Errorf("%d used, want still 5", got)
			}
		})
	}
}

// FuzzUnmarshalBinary feeds the decoder bytes with a right checksum: what it
// takes must come out the same.
func FuzzUnmarshalBinary(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\x01\x01n\x01s\x00\x01\x03\x00"))
	f.Add([]byte("\x02\x00\x01\x01\x04\x00\x00"))
	f.Fuzz(func(t *testing.T, tail []byte) {
		p := newPool(t, "10.0.0.0/28", allocator.Options{})
		if p.UnmarshalBinary(sealed(append([]byte("VIPKIT-POOL\x01\x0b10.0.0.0/28\x0e"), tail...))) != nil {
			return
		}
		data, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		q := newPool(t, "10.0.0.0/28", allocator.Options{})
		wantError(t, "Unmarshal again", q.UnmarshalBinary(data), nil)
		if s := q.Stats(); s != p.Stats() || s.Used+s.Free != 14 {
			t.Errorf("stats %+v, want %+v", s, p.Stats())
		}
	})
}
