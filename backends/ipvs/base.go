package ipvs

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// base returns the objects that belong to no port.
func (d *dialect) base(p *plan.Plan) []object {
	cfg := p.Config()
	out := []object{{ID: id{kind: kindRules}, Value: value{rules: d.opts.rules(cfg)}}}
	for _, r := range cfg.Node.PodCIDRs {
		out = append(out, single(cell{box(boxPods, ip.Family(r.Addr())), rangeText(r)}))
	}
	for _, r := range cfg.ServiceCIDRs {
		out = append(out, single(cell{box(boxServiceCIDRs, ip.Family(r.Addr())), rangeText(r)}))
	}
	if d.opts.Timeouts != (Timeouts{}) {
		out = append(out, object{ID: id{kind: kindTimeouts}, Value: value{timeouts: d.opts.Timeouts}})
	}
	return out
}

// remove removes the table in a transaction, if there is one.
func remove(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
}

// declare adds all of the table but its elements to a transaction. If the table is not fresh its rules go.
func declare(tx *knftables.Transaction, rules []rule, fresh bool) {
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("Service proxy: what IPVS cannot do")})
	for _, f := range families() {
		for _, o := range boxes(f) {
			tx.Add(o)
		}
	}
	tx.Add(&knftables.Set{Name: boxMasqueradeMarks, Type: "mark"})
	var hooked []string
	for _, c := range []struct {
		name, kind, hook string
		priority         knftables.BaseChainPriority
	}{
		{chainMarkPre, "filter", "prerouting", "-150"},
		{chainMarkOut, "filter", "output", "-150"},
		{chainOutput, "filter", "output", "-110"}, // IPVS takes the node's own packets at -98
		{chainInput, "filter", "input", "0"},      // and those from elsewhere at 99
		{chainForward, "filter", "forward", "0"},
		{chainPost, "nat", "postrouting", "100"},
	} {
		tx.Add(&knftables.Chain{
			Name: c.name, Type: knftables.PtrTo(knftables.BaseChainType(c.kind)),
			Hook: knftables.PtrTo(knftables.BaseChainHook(c.hook)), Priority: knftables.PtrTo(c.priority),
		})
		hooked = append(hooked, c.name)
	}
	plain := []string{chainRefuse}
	for _, f := range families() {
		plain = append(plain, box(chainHairpin, f))
	}
	for _, o := range origins() {
		plain = append(plain, chainMark+o.String(), chainFilter+o.String())
	}
	for _, name := range plain {
		tx.Add(&knftables.Chain{Name: name})
	}
	if !fresh {
		for _, name := range slices.Concat(hooked, plain) {
			tx.Flush(&knftables.Chain{Name: name})
		}
	}
	for _, r := range rules {
		tx.Add(&knftables.Rule{Chain: r.chain, Rule: r.text})
	}
}

// knownBoxes are the names of all sets and maps.
func knownBoxes() map[string]bool {
	out := map[string]bool{boxMasqueradeMarks: true}
	for _, f := range families() {
		for _, o := range boxes(f) {
			switch o := o.(type) {
			case *knftables.Set:
				out[o.Name] = true
			case *knftables.Map:
				out[o.Name] = true
			}
		}
	}
	return out
}

// boxes returns the sets and maps of a family.
func boxes(f corev1.IPFamily) []knftables.Object {
	addr := "ipv4_addr"
	if f == corev1.IPv6Protocol {
		addr = "ipv6_addr"
	}
	siteType := addr + " . inet_proto . inet_service"
	var out []knftables.Object
	set := func(name, kind string, flags ...knftables.SetFlag) {
		out = append(out, &knftables.Set{Name: box(name, f), Type: kind, Flags: flags})
	}
	set(boxFrontends, siteType)
	set(boxBound, addr)
	set(boxClusterIPs, addr)
	set(boxGoneIPs, addr)
	set(boxHealthChecks, "inet_service")
	set(boxServiceCIDRs, addr, knftables.IntervalFlag)
	set(boxPods, addr, knftables.IntervalFlag)
	set(boxRestricted, siteType)
	set(boxAllowed, siteType+" . "+addr, knftables.IntervalFlag)
	for _, o := range origins() {
		set(boxMasquerade+o.String(), siteType)
		out = append(out, &knftables.Map{Name: box(boxDeny+o.String(), f), Type: siteType + " : verdict"})
		if o != plan.FromOutside {
			out = append(out, &knftables.Map{Name: box(boxPool+o.String(), f), Type: siteType + " : mark"})
		}
	}
	return out
}

// A rule stands in a chain.
type rule struct {
	chain, text string
}

// rules returns all rules, in order.
func (o Options) rules(cfg plan.Config) []rule {
	n := ruleWriter{o, cfg}
	var out []rule
	add := func(chain, format string, args ...any) {
		out = append(out, rule{chain, fmt.Sprintf(format, args...)})
	}
	add(chainMarkPre, loopbackIsOut)
	n.byOrigin(add, chainMarkPre, chainMark)
	add(chainMarkOut, notFromNode)
	fromNode(add, chainMarkOut, chainMark)
	for _, c := range []string{chainInput, chainForward} {
		add(c, loopbackIsOut)
		add(c, "ct state != new return")
		n.byOrigin(add, c, chainFilter)
	}
	add(chainOutput, notFromNode)
	add(chainOutput, "ct state != new return")
	fromNode(add, chainOutput, chainFilter)
	for _, o := range origins() {
		for _, f := range families() {
			n.marks(add, o, f)
			filters(add, o, f)
		}
	}
	add(chainRefuse, "reject with icmpx port-unreachable")
	add(chainPost, "meta mark & %#x != 0 meta mark set meta mark xor %#x masquerade fully-random", n.opts.MasqueradeMark, n.opts.MasqueradeMark)
	add(chainPost, "meta mark @%s fib saddr type local masquerade fully-random", boxMasqueradeMarks)
	for _, f := range families() {
		// What the node sends to itself is no hairpin, and conntrack does not say what IPVS has translated.
		add(chainPost, "oifname != \"lo\" meta nfproto %s jump %s", nfproto(f), box(chainHairpin, f))
		for _, r := range sameaddr.NFT(f) {
			add(box(chainHairpin, f), "%s", r)
		}
		add(box(chainHairpin, f), "masquerade fully-random")
	}
	return out
}

// A ruleWriter knows what rules depend on.
type ruleWriter struct {
	opts   Options
	config plan.Config
}

// byOrigin sends packets that come in to the chain of their origin.
func (n ruleWriter) byOrigin(add func(string, string, ...any), chain, to string) {
	for _, name := range n.config.PodInterfaces {
		if usableInterface(name) {
			add(chain, "iifname %q goto %s", name, to+plan.FromPod.String())
		}
	}
	podSources(add, chain, to)
	add(chain, "goto %s", to+plan.FromOutside.String())
}

// fromNode does the same for the node's own packets.
func fromNode(add func(string, string, ...any), chain, to string) {
	podSources(add, chain, to)
	add(chain, "goto %s", to+plan.FromNode.String())
}

func podSources(add func(string, string, ...any), chain, to string) {
	for _, f := range families() {
		add(chain, "%s saddr @%s goto %s", proto(f), box(boxPods, f), to+plan.FromPod.String())
	}
}

// marks adds what asks for masquerading, and what chooses a virtual server by mark. The
// latter comes second and replaces the whole mark, since IPVS compares all of it: while a policy
// changes a site can be in both. It holds for every packet: if IPVS forgets a flow before conntrack does, it must
// choose from the same pool again.
func (n ruleWriter) marks(add func(string, string, ...any), o plan.Origin, f corev1.IPFamily) {
	chain := chainMark + o.String()
	add(chain, "%s %s @%s meta mark set meta mark or %#x", newFlow, dialed(f), box(boxMasquerade+o.String(), f), n.opts.MasqueradeMark)
	if o != plan.FromOutside {
		add(chain, "meta mark set %s map @%s", dialed(f), box(boxPool+o.String(), f))
	}
}

// filters adds what refuses packets that are for us and not for IPVS.
func filters(add func(string, string, ...any), o plan.Origin, f corev1.IPFamily) {
	chain, p := chainFilter+o.String(), proto(f)
	// For "meta l4proto" in a key with ranges nft 1.0.6 makes an operation on a single byte, which newer
	// kernels refuse (seen in 6.12.117).
	add(chain, "%s @%s %s daddr . ct protocol . th dport . %s saddr != @%s drop", dialed(f), box(boxRestricted, f), p, p, box(boxAllowed, f))
	add(chain, "%s vmap @%s", dialed(f), box(boxDeny+o.String(), f))
	add(chain, "%s @%s return", dialed(f), box(boxFrontends, f))
	// An address of ours is one of the host: without this every port of the host would be open on it.
	// But load balancers ask for the health of a Service at its own address, and whoever listens there answers. A ClusterIP
	// has no ports but its own.
	unused := "meta l4proto { tcp, udp, sctp } %s daddr @%s %s"
	add(chain, unused, p, box(boxClusterIPs, f), verdictRefuse)
	add(chain, unused, p, box(boxGoneIPs, f), verdictDrop)
	add(chain, "%s daddr @%s tcp dport @%s return", p, box(boxBound, f), box(boxHealthChecks, f))
	add(chain, unused, p, box(boxBound, f), verdictRefuse)
	add(chain, "%s daddr @%s return", p, box(boxBound, f))
	add(chain, "%s daddr @%s drop", p, box(boxServiceCIDRs, f))
}

// dialed is the key of a site.
func dialed(f corev1.IPFamily) string { return proto(f) + " daddr . meta l4proto . th dport" }
