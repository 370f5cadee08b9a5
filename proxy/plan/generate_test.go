package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// dice makes objects out of bytes. Few names and addresses make many collisions.
type dice struct{ data []byte }

func (d *dice) done() bool { return len(d.data) == 0 }

// roll returns a number below n; 0 when the bytes are used up.
func (d *dice) roll(n int) int {
	if d.done() {
		return 0
	}
	b := int(d.data[0])
	d.data = d.data[1:]
	return b % n
}

func (d *dice) flip() bool { return d.roll(2) == 1 }

func (d *dice) name() types.NamespacedName {
	return types.NamespacedName{Namespace: fmt.Sprintf("ns%d", d.roll(2)), Name: fmt.Sprintf("svc%d", d.roll(3))}
}

func (d *dice) service(n types.NamespacedName) *service.Service {
	s := &service.Service{
		Name: n, Created: time.Unix(int64(d.roll(3)), 0),
		InternalLocal: d.flip(), ExternalLocal: d.flip(),
		AffinityTimeout: time.Duration(d.roll(2)) * time.Hour, HealthCheckNodePort: uint16(d.roll(2) * 31000),
	}
	for i := range 1 + d.roll(2) {
		s.Ports = append(s.Ports, service.Port{Name: fmt.Sprintf("p%d", i), Protocol: tcp, Port: uint16(80 + i*d.roll(2)), NodePort: uint16(d.roll(3)) * 30000})
	}
	d.addresses(&s.IPv4, "10.96.0.%d")
	if d.flip() {
		d.addresses(&s.IPv6, "fd00:96::%d")
	}
	return s
}

func (d *dice) addresses(a *service.Addresses, pool string) {
	pick := func() netip.Addr { return addr(fmt.Sprintf(pool, 1+d.roll(5))) }
	a.ClusterIP = pick()
	for range d.roll(3) {
		a.ExternalIPs = append(a.ExternalIPs, pick())
	}
	for range d.roll(3) {
		a.LoadBalancerIPs = append(a.LoadBalancerIPs, pick())
	}
	if d.roll(4) == 0 {
		a.SourceRanges = []netip.Prefix{netip.PrefixFrom(pick(), 16).Masked()}
	}
}

func (d *dice) set() *endpoints.Set {
	m := map[endpoints.Key][]endpoints.Endpoint{}
	states, hints := []string{"R", "N", "T", "X", "P", "S"}, []string{"", " z:za", " z:zb", " z:za n:n1"}
	for range 1 + d.roll(4) {
		text := string('a'+rune(d.roll(4))) + " " + states[d.roll(6)] + hints[d.roll(4)]
		if d.flip() {
			text += " loc"
		}
		f := v4
		if d.roll(3) == 0 {
			f = v6
		}
		k := endpoints.Key{Port: fmt.Sprintf("p%d", d.roll(2)), Protocol: tcp, Family: f}
		m[k] = append(m[k], endpoint(text, f))
	}
	return endpoints.NewSet(m)
}

func (d *dice) config() plan.Config {
	cfg := config()
	cfg.Node.Zone = []string{"", "za", "zb"}[d.roll(3)]
	cfg.Node.Name = []string{"n1", "n2"}[d.roll(2)]
	cfg.Node.Addresses = cfg.Node.Addresses[:d.roll(3)]
	cfg.Node.PodCIDRs = cfg.Node.PodCIDRs[d.roll(3):]
	cfg.MasqueradeAll = d.flip()
	if d.flip() {
		cfg.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/16")}
	}
	return cfg
}

// event changes one object.
func (d *dice) event() plan.Input {
	n := d.name()
	switch d.roll(8) {
	case 0, 1, 2:
		return plan.Input{Services: map[types.NamespacedName]*service.Service{n: d.service(n)}}
	case 3:
		return plan.Input{Services: map[types.NamespacedName]*service.Service{n: nil}}
	case 4, 5:
		return plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{n: d.set()}}
	case 6:
		return plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{n: nil}}
	default:
		cfg := d.config()
		return plan.Input{Config: &cfg}
	}
}

// merge is what two Inputs say if they come as one.
func merge(a, b plan.Input) plan.Input {
	if b.Config != nil {
		a.Config = b.Config
	}
	services, sets := maps.Clone(a.Services), maps.Clone(a.Endpoints)
	if services == nil {
		services = map[types.NamespacedName]*service.Service{}
	}
	if sets == nil {
		sets = map[types.NamespacedName]*endpoints.Set{}
	}
	maps.Copy(services, b.Services)
	maps.Copy(sets, b.Endpoints)
	return plan.Input{Config: a.Config, Services: services, Endpoints: sets}
}

// split is the other way round: one Input for each object.
func split(in plan.Input) []plan.Input {
	var list []plan.Input
	if in.Config != nil {
		list = append(list, plan.Input{Config: in.Config})
	}
	for n, s := range in.Services {
		list = append(list, plan.Input{Services: map[types.NamespacedName]*service.Service{n: s}})
	}
	for n, s := range in.Endpoints {
		list = append(list, plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{n: s}})
	}
	return list
}
