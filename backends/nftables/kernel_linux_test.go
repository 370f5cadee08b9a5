package nftables

import (
	"strings"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// wantSettled checks that another instance, which reads the kernel, finds nothing to write.
func (w *world) wantSettled(opts Options) {
	w.tb.Helper()
	b := newBackend(w.tb, opts)
	r := record(b)
	w.restart(b)
	for _, line := range r.written() {
		w.tb.Errorf("the kernel differs from the plan: a restart writes %s", line)
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

func TestLongNames(t *testing.T) {
	inNetNS(t)
	long := strings.Repeat("n", 63)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	port := func(s *service.Service) { s.Ports[0].Name = strings.Repeat("p", 63) }
	w.sync(b, with(
		app{name: long, vip: "10.96.0.10", eps: two, change: port},
		app{name: long + "-2", vip: "10.96.0.11", eps: two, change: both(port, affine)},
		app{name: "ok", vip: "10.96.0.12", eps: two}))
	out := nft(t, "list", "map", "ip", "vipkit", boxServices)
	if n := strings.Count(out, "comment \"ns1/"); n != 3 {
		t.Errorf("#1 E44 %d of 3 Services in\n%s", n, out)
	}
	w.wantSettled(Options{})
}
