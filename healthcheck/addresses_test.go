package healthcheck_test

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

func TestAddresses(t *testing.T) {
	tests := []struct {
		name   string
		values []string // of nodePortAddresses
		want   []string
	}{
		{"H26 #47 all: a wildcard socket of each family", []string{"all"}, []string{"tcp4 0.0.0.0:31000", "tcp6 [::]:31000"}},
		// kube-proxy puts IPv6 on the wildcard, although no IPv6 address serves NodePorts.
		{"H27 #52 a range: the address inside, nothing of the other family", []string{"192.0.2.0/24"}, []string{"tcp4 192.0.2.10:31000"}},
		{"#52 no entry: the primary addresses", nil, []string{"tcp4 192.0.2.10:31000", "tcp6 [2001:db8:1::10]:31000"}},
		{"one family is open", []string{"0.0.0.0/0", "2001:db8::/32"}, []string{"tcp4 0.0.0.0:31000", "tcp6 [2001:db8:1::10]:31000"}},
		{"localhost", []string{"localhost"}, []string{"tcp4 127.0.0.1:31000", "tcp6 [::1]:31000"}},
		{"part of the loopback range", []string{"127.0.8.1/32"}, []string{"tcp4 127.0.8.1:31000"}},
		{"no address of the node", []string{"198.51.100.0/24"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.selectAddresses(t, tt.values...)
			r.svc("web", 31000, "10.200.0.1")
			r.sync(t)
			r.want(t, tt.want...)
			r.wantChanges(t)
		})
	}
}

func (r *rig) selectAddresses(t *testing.T, values ...string) {
	t.Helper()
	s, err := plan.ParseNodePortSelector(values)
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.NodePortAddresses = s
}

func TestHostWithoutIPv6(t *testing.T) {
	r := newRig(t)
	r.selectAddresses(t, "all")
	r.take("[::]:31000", syscall.EAFNOSUPPORT)
	r.svc("web", 31000, "10.200.0.1")
	r.sync(t)
	r.wantWeight(t, "0.0.0.0:31000", 200, "1")
	r.wantChanges(t)
}

func TestAddressesChange(t *testing.T) {
	t.Run("#52 an address that comes later", func(t *testing.T) {
		r := newRig(t)
		all := r.cfg.Node.Addresses
		r.cfg.Node.Addresses = all[2:]
		r.selectAddresses(t, "192.0.2.0/24")
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.want(t)
		r.cfg.Node.Addresses = all
		r.sync(t)
		r.wantWeight(t, web4, 200, "1")
	})
	t.Run("the primary address moves: only its socket does", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.cfg.Node.Addresses = slices.Replace(slices.Clone(r.cfg.Node.Addresses), 0, 1, netip.MustParseAddr("192.0.2.11"))
		r.sync(t)
		r.want(t, "tcp4 192.0.2.11:31000", "tcp6 [2001:db8:1::10]:31000")
		if r.opens != 3 {
			t.Errorf("%d sockets were opened, want 2 and 1", r.opens)
		}
		r.wantWeight(t, "192.0.2.11:31000", 200, "1")
	})
	t.Run("from the wildcard to one address", func(t *testing.T) {
		r := newRig(t)
		r.selectAddresses(t, "all")
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.selectAddresses(t, "192.0.2.0/24")
		r.sync(t)
		r.want(t, "tcp4 192.0.2.10:31000")
	})
	t.Run("another change of the configuration", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.cfg.MasqueradeAll = true
		r.sync(t)
		if r.opens != 2 {
			t.Errorf("%d sockets were opened, want 2", r.opens)
		}
	})
}
