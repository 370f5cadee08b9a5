package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Probe looks for IPVS, the scheduler of the options, and nft. It loads kernel modules, and to find the scheduler it makes a
// virtual server at an address for documentation and removes it at once; nothing else is
// changed. The error joins what is missing; see [backends.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.open(ctx)
	if b.kernel != nil {
		err = errors.Join(err, b.try(b.opts.Balance.Scheduler))
	}
	if err != nil {
		return fmt.Errorf("ipvs: probe: %w", err)
	}
	return nil
}

// Check names the first virtual server, address or chain that is gone or changed. It
// lists virtual servers, addresses and, through nft, which loads the whole table, its chains; real servers, rules and elements are compared by a full Sync only.
func (b *Backend) Check(ctx context.Context) (changed []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.base == nil {
		return nil, nil
	}
	found, err := b.missing(ctx)
	if err != nil {
		return nil, fmt.Errorf("ipvs: check: %w", err)
	}
	if found != "" {
		return []string{found + " is gone or changed"}, nil
	}
	return nil, nil
}

// missing returns the first thing that is not as it should be, "" if nothing.
func (b *Backend) missing(ctx context.Context) (string, error) {
	chains, err := b.nft.List(ctx, "chain")
	if err != nil && !knftables.IsNotFound(err) {
		return "", err
	}
	for _, c := range []string{chainMarkPre, chainMarkOut, chainInput, chainForward, chainOutput, chainPost} {
		if !slices.Contains(chains, c) {
			return "chain " + c, nil
		}
	}
	bound, err := b.links.bound()
	if err != nil {
		return "", err
	}
	list, err := b.kernel.Servers()
	if err != nil {
		return "", err
	}
	return b.absent(bound, list), nil
}

// absent returns the first address or virtual server that is not there as it should be.
func (b *Backend) absent(bound map[netip.Addr]netip.Addr, list []VirtualServer) string {
	have := make(map[ServerKey]VirtualServer, len(list))
	for _, v := range list {
		have[v.ServerKey] = v
	}
	for _, w := range b.sites {
		if _, ok := bound[w.addr.Addr()]; w.bound && !ok {
			return "address " + w.addr.Addr().String()
		}
	}
	for k, v := range b.servers {
		if h, ok := have[k]; !ok || !b.leaving[k] && !h.sameSettings(&v) {
			return "virtual server " + k.String()
		}
	}
	return ""
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

// Prepare sets the kernel's switches that the Backend depends on, in the network namespace
// of the calling thread, and returns those that it changed; see [backends.Preparer]. Opening IPVS loads its module. With
// [Options].StrictARP it sets arp_ignore and arp_announce too.
func (b *Backend) Prepare(context.Context) (changed []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.openKernel(); err != nil { // the switches of IPVS come with its module
		return nil, fmt.Errorf("ipvs: prepare: %w", err)
	}
	for _, s := range b.opts.settings() {
		if s.have == s.want || s.optional() {
			continue
		}
		if err := os.WriteFile(s.path(), []byte(s.want), 0); err != nil {
			return changed, fmt.Errorf("ipvs: prepare %s: %w", s.name, err)
		}
		changed = append(changed, fmt.Sprintf("%s was %q, is now %s: %s", s.name, s.have, s.want, s.why))
	}
	return changed, nil
}

// optional reports whether the kernel may lack a switch: one without IPv6 has none for it.
func (s setting) optional() bool { return s.have == "" && strings.HasPrefix(s.name, "net.ipv6.") }

// Warnings returns one sentence for each switch of the kernel that is not as [Backend.Prepare] sets it, and for
// what of the plan is not served, or nil. p may be nil. It reads files under /proc and changes nothing.
func (b *Backend) Warnings(_ context.Context, p *plan.Plan) []string {
	var out []string
	for _, s := range b.opts.settings() {
		if s.have != s.want && !s.optional() {
			out = append(out, fmt.Sprintf("%s is %q, not %s: %s", s.name, s.have, s.want, s.why))
		}
	}
	if p == nil {
		return out
	}
	return append(out, b.notServed(p)...)
}

func (b *Backend) notServed(p *plan.Plan) []string {
	var out []string
	own := p.Config().Node.Addresses
	for port := range p.All() {
		for i := range port.Frontends {
			f := &port.Frontends[i]
			if f.Kind != plan.NodePort && b.opts.Elsewhere != nil && !slices.Contains(own, f.Addr) && b.opts.Elsewhere(f.Addr) {
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
