package nftables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func newBackend(tb testing.TB, opts Options) *Backend {
	tb.Helper()
	b, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

const (
	two  = "10.180.0.1:8080@n1 10.180.1.1:8080@n2"
	dual = two + " [fd00:10:180::1]:8080@n1 [fd00:10:180:1::1]:8080@n2"
)

// everything is a set of apps with every kind of object.
func everything() []app {
	ranges := func(s *service.Service) {
		s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix("192.0.2.0/24"), prefix("10.0.0.0/8"))
		s.IPv6.SourceRanges = append(s.IPv6.SourceRanges, prefix("::/0"))
	}
	vips := func(n int) func(*service.Service) {
		return func(s *service.Service) {
			externals(s)
			s.Ports[0].NodePort += uint16(n)
			s.IPv4.ExternalIPs[0] = addr(fmt.Sprintf("198.51.100.%d", n))
			s.IPv4.LoadBalancerIPs[0] = addr(fmt.Sprintf("203.0.113.%d", n))
			s.IPv6.LoadBalancerIPs[0] = addr(fmt.Sprintf("2001:db8:1::%d", n))
		}
	}
	local := func(s *service.Service) { s.ExternalLocal, s.InternalLocal = true, true }
	return []app{
		{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: dual},
		{name: "outside", vip: "10.96.0.11 fd00:96::11", eps: dual, change: vips(1)},
		{name: "empty", vip: "10.96.0.12", change: both(vips(2), ranges)},
		{name: "sticky", vip: "10.96.0.13 fd00:96::13", eps: dual, change: both(vips(3), affine)},
		{name: "local", vip: "10.96.0.14 fd00:96::14", eps: dual, change: both(vips(4), local, ranges)},
		{name: "elsewhere", vip: "10.96.0.15", eps: "10.180.1.1:8080@n2", change: both(vips(5), local)},
		{name: "sticky-local", vip: "10.96.0.16", eps: dual, change: both(vips(6), local, affine)},
	}
}

// wantSettled checks that another instance, which reads the kernel, finds nothing to write.
func (w *world) wantSettled(opts Options) {
	w.tb.Helper()
	b := newBackend(w.tb, opts)
	r := record(b)
	w.restart(b)
	for _, text := range r.texts {
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "delete chain") { // flushed before, see chainRest
				w.tb.Errorf("the kernel differs from the plan: a restart writes %s", line)
			}
		}
	}
}

func TestKernelSteps(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	apps := everything()
	steps := []struct {
		name string
		in   func() plan.Input
	}{
		{"first", func() plan.Input { return with(apps...) }},
		{"endpoint added everywhere", func() plan.Input {
			for i := range apps {
				apps[i].eps += " 10.180.0.77:8080@n1 [fd00:10:180::77]:8080@n1"
			}
			return with(apps...)
		}},
		{"endpoints removed", func() plan.Input {
			for i := range apps {
				apps[i].eps = "10.180.1.1:8080@n2"
			}
			return with(apps...)
		}},
		{"none left", func() plan.Input {
			for i := range apps {
				apps[i].eps = ""
			}
			return with(apps...)
		}},
		{"back again", func() plan.Input { apps = everything(); return with(apps...) }},
		{"node moves", func() plan.Input {
			cfg := nodeConfig()
			cfg.Node.PodCIDRs = append(cfg.Node.PodCIDRs, prefix("10.181.0.0/16"))
			cfg.NodePortAddresses.All = true
			cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, prefix("10.96.0.0/12"), prefix("fd00:96::/112"))
			return plan.Input{Config: &cfg}
		}},
		{"interfaces", func() plan.Input {
			cfg := nodeConfig()
			cfg.PodInterfaces = []string{"veth*", "cni0"}
			return plan.Input{Config: &cfg}
		}},
		{"all gone", func() plan.Input {
			for i := range apps {
				apps[i].gone = true
			}
			return with(apps...)
		}},
	}
	for _, s := range steps {
		st := w.sync(b, s.in())
		t.Log(s.name, st)
		w.wantSettled(Options{})
		w.cursor.Reset()
		w.sync(b, plan.Input{})
	}
}
