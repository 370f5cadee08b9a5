package ipvs

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Names of sets and maps, to which the family and for some the origin is added.
const (
	boxFrontends       = "frontends"        // all sites that are served: also the record of what is ours
	boxBound           = "bound"            // addresses with a local route
	boxClusterIPs      = "cluster-ips"      // their unused ports reject
	boxGoneIPs         = "gone-ips"         // ClusterIPs that stay for old connections only
	boxHealthChecks    = "health-checks"    // ports of the node that answer on bound addresses too
	boxServiceCIDRs    = "service-cidrs"    // their unused addresses drop
	boxPods            = "pods"             // where this node's pods send from
	boxRestricted      = "restricted"       // sites with source ranges
	boxAllowed         = "allowed"          // site . range
	boxDeny            = "deny-"            // site : verdict
	boxMasquerade      = "masquerade-"      // sites
	boxPool            = "pool-"            // site : mark
	boxMasqueradeMarks = "masquerade-marks" // marks, for both families
)

// Names of chains.
const (
	chainMarkPre  = "mark-prerouting"
	chainMarkOut  = "mark-output"
	chainInput    = "filter-input"
	chainForward  = "filter-forward"
	chainOutput   = "filter-output"
	chainPost     = "nat-postrouting"
	chainMark     = "mark-"   // by origin
	chainFilter   = "filter-" // by origin
	chainHairpin  = "hairpin" // by family
	chainRefuse   = "refuse"
	verdictDrop   = "drop"
	verdictRefuse = "goto " + chainRefuse
	newFlow       = "ct state new"
	notFromNode   = "fib saddr type != local return"
	loopbackIsOut = `iifname "lo" return` // already decided in output
)

func families() []corev1.IPFamily { return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} }

func origins() []plan.Origin { return []plan.Origin{plan.FromPod, plan.FromNode, plan.FromOutside} }

// box returns the name of a set or map of one family.
func box(name string, f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return name + "-6"
	}
	return name + "-4"
}

// isMap reports whether the elements of a box have values.
func isMap(box string) bool {
	return strings.HasPrefix(box, boxDeny) || strings.HasPrefix(box, boxPool)
}

// declare adds an empty table to a transaction, whatever there was before.
func (n *node) declare(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("Service proxy: what IPVS cannot do")})
	for _, f := range families() {
		declareBoxes(tx, f)
	}
	tx.Add(&knftables.Set{Name: boxMasqueradeMarks, Type: "mark"})
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
	}
	tx.Add(&knftables.Chain{Name: chainRefuse})
	for _, f := range families() {
		tx.Add(&knftables.Chain{Name: box(chainHairpin, f)})
	}
	for _, o := range origins() {
		tx.Add(&knftables.Chain{Name: chainMark + o.String()})
		tx.Add(&knftables.Chain{Name: chainFilter + o.String()})
	}
	for _, r := range n.rules() {
		tx.Add(&knftables.Rule{Chain: r[0], Rule: r[1]})
	}
}

func declareBoxes(tx *knftables.Transaction, f corev1.IPFamily) {
	addr := "ipv4_addr"
	if f == corev1.IPv6Protocol {
		addr = "ipv6_addr"
	}
	siteType := addr + " . inet_proto . inet_service"
	interval := []knftables.SetFlag{knftables.IntervalFlag}
	set := func(name, kind string, flags ...knftables.SetFlag) {
		tx.Add(&knftables.Set{Name: box(name, f), Type: kind, Flags: flags})
	}
	set(boxFrontends, siteType)
	set(boxBound, addr)
	set(boxClusterIPs, addr)
	set(boxGoneIPs, addr)
	set(boxHealthChecks, "inet_service")
	set(boxServiceCIDRs, addr, interval...)
	set(boxPods, addr, interval...)
	set(boxRestricted, siteType)
	set(boxAllowed, siteType+" . "+addr, interval...)
	for _, o := range origins() {
		set(boxMasquerade+o.String(), siteType)
		tx.Add(&knftables.Map{Name: box(boxDeny+o.String(), f), Type: siteType + " : verdict"})
		if o != plan.FromOutside {
			tx.Add(&knftables.Map{Name: box(boxPool+o.String(), f), Type: siteType + " : mark"})
		}
	}
}

// rules returns all rules as pairs of chain and rule, in order.
func (n *node) rules() [][2]string {
	var out [][2]string
	add := func(chain, format string, args ...any) {
		out = append(out, [2]string{chain, fmt.Sprintf(format, args...)})
	}
	add(chainMarkPre, loopbackIsOut)
	n.byOrigin(add, chainMarkPre, chainMark)
	add(chainMarkOut, notFromNode)
	n.fromNode(add, chainMarkOut, chainMark)
	for _, c := range []string{chainInput, chainForward} {
		add(c, loopbackIsOut)
		add(c, "ct state != new return")
		n.byOrigin(add, c, chainFilter)
	}
	add(chainOutput, notFromNode)
	add(chainOutput, "ct state != new return")
	n.fromNode(add, chainOutput, chainFilter)
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

func proto(f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return "ip6"
	}
	return "ip"
}

func nfproto(f corev1.IPFamily) string { return "ipv" + strings.TrimPrefix(string(f), "IPv") }

// byOrigin sends packets that come in to the chain of their origin.
func (n *node) byOrigin(add func(string, string, ...any), chain, to string) {
	for _, name := range n.plan.Config().PodInterfaces {
		if usableInterface(name) {
			add(chain, "iifname %q goto %s", name, to+plan.FromPod.String())
		}
	}
	n.podSources(add, chain, to)
	add(chain, "goto %s", to+plan.FromOutside.String())
}

// fromNode does the same for the node's own packets.
func (n *node) fromNode(add func(string, string, ...any), chain, to string) {
	n.podSources(add, chain, to)
	add(chain, "goto %s", to+plan.FromNode.String())
}

func (n *node) podSources(add func(string, string, ...any), chain, to string) {
	for _, f := range families() {
		add(chain, "%s saddr @%s goto %s", proto(f), box(boxPods, f), to+plan.FromPod.String())
	}
}

// marks adds what asks for masquerading, and what chooses a virtual server by mark. The
// latter comes second and replaces the whole mark, since IPVS compares all of it: while a policy
// changes a site can be in both. It holds for every packet: if IPVS forgets a flow before conntrack does, it must
// choose from the same pool again.
func (n *node) marks(add func(string, string, ...any), o plan.Origin, f corev1.IPFamily) {
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

// configElements returns the elements that come from the configuration.
func (n *node) configElements() []element {
	var out []element
	cfg := n.plan.Config()
	for name, ranges := range map[string][]netip.Prefix{boxPods: cfg.Node.PodCIDRs, boxServiceCIDRs: cfg.ServiceCIDRs} {
		for _, r := range ranges {
			out = append(out, element{box: box(name, ip.Family(r.Addr())), key: r.String()})
		}
	}
	return out
}

// usableInterface reports whether a name or prefix can stand in a rule: at most 15 bytes,
// and nothing that nft takes for more than a letter.
func usableInterface(name string) bool {
	plain := strings.TrimSuffix(name, "*")
	return plain != "" && len(plain) <= 15 && !strings.ContainsAny(plain, "*/ \"\\\n\t")
}

// object returns an element for knftables.
func (e element) object() *knftables.Element {
	out := &knftables.Element{Key: strings.Split(e.key, " . ")}
	if isMap(e.box) {
		out.Map, out.Value = e.box, []string{e.value}
	} else {
		out.Set = e.box
	}
	return out
}
