package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

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

// A cell is where an element is: the key of a set or map.
type cell struct {
	box, key string
}

// An element is what is in a cell; value is empty in a set.
type element struct {
	cell
	value string
}

// exclusive returns what elements have in common that exclude each other: in a map the key; of ranges, which must not overlap, the site
// or the set. Elements of other sets exclude none.
func (c cell) exclusive() (of cell, ok bool) {
	switch name := c.box[:max(0, len(c.box)-len("-4"))]; {
	case isMap(c.box):
		return c, true
	case name == boxAllowed:
		i := strings.LastIndex(c.key, " . ")
		return cell{c.box, c.key[:max(i, 0)]}, true
	case name == boxPods, name == boxServiceCIDRs:
		return cell{box: c.box}, true
	}
	return cell{}, false
}

func compareCell(a, b cell) int {
	return cmp.Or(strings.Compare(a.box, b.box), strings.Compare(a.key, b.key))
}

func sortElements(list []element) {
	slices.SortFunc(list, func(a, b element) int { return cmp.Or(compareCell(a.cell, b.cell), strings.Compare(a.value, b.value)) })
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

// A site is the address, port and protocol of a virtual server, as a key of the table.
type site struct {
	family corev1.IPFamily
	key    string
}

func (k ServerKey) site() site {
	return site{k.Family, fmt.Sprintf("%s . %s . %d", k.Addr.Addr(), strings.ToLower(string(k.Protocol)), k.Addr.Port())}
}

// in returns the cell of a set or map whose keys are sites.
func (s site) in(name string) cell { return cell{box(name, s.family), s.key} }

// addrCell returns the cell of an address.
func addrCell(name string, a netip.Addr) cell { return cell{box(name, ip.Family(a)), a.String()} }

// rangeText returns a range as nft lists it.
func rangeText(r netip.Prefix) string {
	if r.IsSingleIP() {
		return r.Addr().String()
	}
	return r.String()
}

func hex(mark uint32) string { return fmt.Sprintf("0x%08x", mark) }

// server returns what a cell is about whose keys are sites, or sites and more; false if it is of another kind.
func (c cell) server() (ServerKey, bool) {
	words := strings.Split(c.key, " . ")
	if len(words) < 3 {
		return ServerKey{}, false
	}
	addr, err := netip.ParseAddr(words[0])
	port, err2 := strconv.ParseUint(words[2], 10, 16)
	p := corev1.Protocol(strings.ToUpper(words[1]))
	if err != nil || err2 != nil || protocolNumber(p) == 0 {
		return ServerKey{}, false
	}
	return ServerKey{Addr: netip.AddrPortFrom(addr, uint16(port)), Protocol: p, Family: ip.Family(addr)}, true
}

// usableInterface reports whether a name or prefix can stand in a rule: at most 15 bytes,
// and nothing that nft takes for more than a letter.
func usableInterface(name string) bool {
	plain := strings.TrimSuffix(name, "*")
	return plain != "" && len(plain) <= 15 && !strings.ContainsAny(plain, "*/ \"\\\n\t")
}

func proto(f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return "ip6"
	}
	return "ip"
}

func nfproto(f corev1.IPFamily) string { return "ipv" + strings.TrimPrefix(string(f), "IPv") }
