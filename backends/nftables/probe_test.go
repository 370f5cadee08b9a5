package nftables

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A lacking kernel or nft refuses what contains a text.
type lacking struct {
	nowhere
	what       string
	err        error
	nft, linux string
}

func (l *lacking) check(_ context.Context, text []byte) error {
	if l.what != "" && strings.Contains(string(text), l.what) {
		return l.err
	}
	return nil
}

func (l *lacking) version(context.Context) (string, error) { return l.nft, nil }
func (l *lacking) release() (string, error)                { return l.linux, nil }

func TestProbe(t *testing.T) {
	refused := errors.New("could not process rule")
	tests := []struct {
		name        string
		l           lacking
		opts        Options
		want        []string // parts of the error, nil for none
		unsupported bool
	}{
		{"all there", lacking{}, Options{}, nil, false},
		{"nft too old", lacking{nft: "nftables v1.0.0 (x)"}, Options{}, []string{"the nft program", "nft 1.0.1"}, true},
		{"nft new", lacking{nft: "nftables v1.1.3"}, Options{}, nil, false},
		{"E39 kernel 5.10", lacking{linux: "5.10.0-8-amd64"}, Options{}, []string{"Linux 5.13", "5.10.0-8"}, true},
		{"E40 kernel 5.10, version skipped", lacking{linux: "5.10.0"}, Options{SkipKernelVersion: true}, nil, false},
		{"#84 no fib, no masquerade", lacking{what: "fib", err: refused}, Options{}, []string{"fib in IPv4", "fib in IPv6", "Linux 4.10"}, true},
		{"#84 no numgen", lacking{what: "numgen", err: refused}, Options{}, []string{"numgen in IPv4"}, true},
		{"#84 no masquerade", lacking{what: "masquerade", err: refused}, Options{}, []string{"masquerade in IPv4"}, true},
		{"#84 and an old kernel", lacking{what: "fib", err: refused, linux: "4.19.0"}, Options{}, []string{"Linux 5.13", "fib in IPv4"}, true},
		{"#67 one family of two", lacking{what: " ip6 ", err: refused}, Options{}, nil, false},
		{"#67 the only family", lacking{what: " ip6 ", err: refused}, Options{Families: families6()}, []string{"NAT in IPv6"}, true},
		{"no rights", lacking{what: "add", err: fs.ErrPermission}, Options{}, []string{"CAP_NET_ADMIN"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, l := newBackend(t, tt.opts), tt.l
			if l.nft == "" {
				l.nft = "nftables v1.0.6 (Lester Gooch #5)"
			}
			if l.linux == "" {
				l.linux = "6.1.0"
			}
			b.runner, b.kernel = &l, &l
			err := b.Probe(t.Context())
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("Probe = %v, want %v", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Probe = %v, want %q in it", err, part)
				}
			}
			if got := errors.Is(err, errors.ErrUnsupported); got != tt.unsupported {
				t.Errorf("errors.Is(%v, ErrUnsupported) = %v", err, got)
			}
		})
	}
}

func TestMissingFamilyIsLeftOut(t *testing.T) {
	b := newBackend(t, Options{})
	l := &lacking{what: " ip6 ", err: errRefused}
	b.runner, b.kernel = l, l
	r := record(b)
	w := newWorld(t, nodeConfig())
	w.sync(b, with(app{name: "a", vip: "10.96.0.1 fd00::1", eps: dual}))
	if text := strings.Join(r.texts, ""); !strings.Contains(text, "10.96.0.1") || strings.Contains(text, "fd00") {
		t.Error("#67 the family that works is not written, or the other is")
	}
	if out := b.Warnings(t.Context(), nil); !slices.ContainsFunc(out, func(s string) bool { return strings.Contains(s, "IPv6") }) {
		t.Errorf("#67 no warning about IPv6 in %q", out)
	}
}

func TestSettings(t *testing.T) {
	files := func(pairs ...string) fs.FS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1] + "\n")}
		}
		return m
	}
	const bridge, call = "sys/class/net/cni0/bridge", "proc/sys/net/bridge/bridge-nf-call-iptables"
	tests := []struct {
		name string
		root fs.FS
		want []string
	}{
		{"nothing to read", files(), nil},
		{"forwarding off", files("proc/sys/net/ipv4/ip_forward", "0"), []string{"ip_forward"}},
		{"forwarding on", files("proc/sys/net/ipv4/ip_forward", "1", "proc/sys/net/ipv6/conf/all/forwarding", "1"), nil},
		{"strict reverse path", files("proc/sys/net/ipv4/conf/all/rp_filter", "1"), []string{"rp_filter"}},
		{"loose reverse path", files("proc/sys/net/ipv4/conf/all/rp_filter", "2"), nil},
		{"bridge, no br_netfilter", files(bridge, ""), []string{"bridge (cni0)"}},
		{"bridge and br_netfilter", files(bridge, "", call, "1"), nil},
		{"bridge and br_netfilter off", files(bridge, "", call, "0"), []string{"bridge (cni0)"}},
	}
	for _, tt := range tests {
		got := settings(tt.root)
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %q, want %d", tt.name, got, len(tt.want))
			continue
		}
		for i, part := range tt.want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s: got %q, want %q in it", tt.name, got[i], part)
			}
		}
	}
}
