package ipvs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Probe looks for IPVS, the scheduler of the options, and nft. It loads kernel modules, and to find the scheduler it makes a
// virtual server at an address for documentation and removes it at once; nothing else is
// changed. The error joins what is missing; see [backends.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.open(ctx)
	if b.dialect.kernel != nil {
		err = errors.Join(err, b.dialect.try(b.dialect.opts.Balance.Scheduler))
	}
	if err != nil {
		return fmt.Errorf("ipvs: probe: %w", err)
	}
	return nil
}

// A setting is a value below /proc/sys.
type setting struct {
	name string // as in "net.ipv4.vs.conntrack"
	want string
	have string // "" if it could not be read
	why  string
}

// settings are what IPVS needs to work as the documentation of the package says.
func (o Options) settings() []setting {
	list := []setting{
		{name: "net.ipv4.vs.conntrack", want: "1", why: "masquerading needs it"},
		{name: "net.ipv4.vs.expire_nodest_conn", want: "1", why: "flows to endpoints that are gone end"},
		{name: "net.ipv4.vs.expire_quiescent_template", want: "1", why: "clients with affinity leave an endpoint that drains"},
		{name: "net.ipv4.ip_forward", want: "1", why: "packets are sent on to endpoints"},
		{name: "net.ipv6.conf.all.forwarding", want: "1", why: "packets are sent on to IPv6 endpoints"},
	}
	if o.StrictARP {
		list = append(list,
			setting{name: "net.ipv4.conf.all.arp_ignore", want: "1", why: "ARP is not answered for bound addresses"},
			setting{name: "net.ipv4.conf.all.arp_announce", want: "2", why: "ARP does not announce bound addresses"})
	}
	for i := range list {
		text, err := os.ReadFile(list[i].path())
		if err == nil {
			list[i].have = strings.TrimSpace(string(text))
		}
	}
	return list
}

func (s setting) path() string { return "/proc/sys/" + strings.ReplaceAll(s.name, ".", "/") }

// Prepare loads IPVS and sets the kernel's switches that the Backend depends on, in the network namespace
// of the calling thread; see [backends.Preparer].
func (b *Backend) Prepare(context.Context) (changed []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.openKernel(); err != nil { // the switches of IPVS come with its module
		return nil, fmt.Errorf("ipvs: prepare: %w", err)
	}
	for _, s := range b.dialect.opts.settings() {
		if s.have == s.want || s.optional() {
			continue
		}
		if err := os.WriteFile(s.path(), []byte(s.want), 0); err != nil {
			return changed, fmt.Errorf("ipvs: prepare %s: %w", s.name, err)
		}
		changed = append(changed, fmt.Sprintf("%s is set to %s, was %q: %s", s.name, s.want, s.have, s.why))
	}
	return changed, nil
}

// optional reports whether the kernel may lack a switch: one without IPv6 has none for it.
func (s setting) optional() bool { return s.have == "" && strings.HasPrefix(s.name, "net.ipv6.") }

// Warnings names switches of the kernel, and what of p is not served; see [backends.Warner]. It reads files under /proc.
func (b *Backend) Warnings(_ context.Context, p *plan.Plan) []string {
	var out []string
	for _, s := range b.dialect.opts.settings() {
		if s.have != s.want && !s.optional() {
			out = append(out, fmt.Sprintf("%s is %q, not %s: %s", s.name, s.have, s.want, s.why))
		}
	}
	if p == nil {
		return out
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(out, b.dialect.notServed(p)...)
}

func (d *dialect) notServed(p *plan.Plan) []string {
	var out []string
	for port := range p.All() {
		for i := range port.Frontends {
			if f := &port.Frontends[i]; f.Kind != plan.NodePort && d.isElsewhere(p, f.Addr) {
				out = append(out, fmt.Sprintf("%s of %s is not served: it is the address of another machine", f, port.PortName))
			}
		}
	}
	for _, f := range families() {
		a := p.NodePortAddresses(f)
		for _, addr := range a.Addrs {
			if unservable(addr) {
				out = append(out, fmt.Sprintf("NodePorts are not served on %s", addr))
			}
		}
		for _, r := range a.Prefixes {
			out = append(out, fmt.Sprintf("NodePorts are not served on %s", r))
		}
	}
	for _, name := range p.Config().PodInterfaces {
		if !usableInterface(name) {
			out = append(out, fmt.Sprintf("pod interface %q is left out: no interface can have this name, or nft cannot write it", name))
		}
	}
	return out
}
