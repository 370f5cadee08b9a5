package shadow

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
)

// areaServers is the area of IPVS.
const areaServers = "ipvs-servers"

// A VirtualServer is one that upstream or vipkit made.
type VirtualServer struct {
	Protocol, Address, Scheduler string
	Persistence                  int // seconds; 0 without affinity
	Real                         []string
}

func (v VirtualServer) key() string { return v.Protocol + " " + v.Address }

// CompareServers compares all virtual servers of one family by address to those that vipkit makes
// of the plan.
func CompareServers(p *plan.Plan, family corev1.IPFamily, upstream []VirtualServer) {
	text, err := ipvs.Render(p, ipvs.Options{})
	if err != nil {
		Differ(areaServers, Unexplained, "%v", err)
		return
	}
	theirs, ours := byKey(upstream), byKey(rendered(text, family))
	keys := map[string]bool{}
	for key := range theirs {
		keys[key] = true
	}
	for key := range ours {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		compareServer(p, theirs[key], ours[key])
	}
}

func compareServer(p *plan.Plan, theirs, ours *VirtualServer) {
	switch {
	case theirs == nil:
		Differ(areaServers, Unexplained, "only vipkit has %+v", *ours)
	case ours == nil:
		Differ(areaServers, onlyTheirs(*theirs), "only upstream has %+v", *theirs)
	case fmt.Sprint(*theirs) == fmt.Sprint(*ours):
		Agree(areaServers)
	case len(ours.Real) == 0 && refuses(p, *ours):
		Differ(areaServers, "refused-without-real-servers", "upstream %+v, vipkit %+v", *theirs, *ours)
	default:
		Differ(areaServers, Unexplained, "upstream %+v, vipkit %+v", *theirs, *ours)
	}
}

func onlyTheirs(v VirtualServer) string {
	addr, err := netip.ParseAddrPort(v.Address)
	switch {
	case err == nil && addr.Port() == 0:
		return "port-number-out-of-range"
	case err == nil && special(addr.Addr().String()):
		return "special-address"
	}
	return Unexplained
}

// refuses reports whether nobody outside may connect to the virtual server.
func refuses(p *plan.Plan, v VirtualServer) bool {
	addr, err := netip.ParseAddrPort(v.Address)
	if err != nil {
		return false
	}
	_, front := p.Lookup(addr, corev1.Protocol(v.Protocol))
	if front == nil {
		family := corev1.IPv4Protocol
		if addr.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		_, front = p.LookupNodePort(family, addr.Port(), corev1.Protocol(v.Protocol))
	}
	return front != nil && front.Actions[plan.FromOutside].Verdict != plan.Forward
}

func byKey(list []VirtualServer) map[string]*VirtualServer {
	out := map[string]*VirtualServer{}
	for _, v := range list {
		slices.Sort(v.Real)
		out[v.key()] = &v
	}
	return out
}

// rendered reads the virtual servers by address of one family in what [ipvs.Render] wrote.
func rendered(text string, family corev1.IPFamily) []VirtualServer {
	var out []VirtualServer
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "-A" && f[0] != "-a" {
			continue
		}
		protocol := map[string]string{"-t": "TCP", "-u": "UDP", "--sctp-service": "SCTP"}[f[1]]
		addr, err := netip.ParseAddrPort(f[2])
		switch {
		case protocol == "" || err != nil || addr.Addr().Is4() != (family == corev1.IPv4Protocol):
		case f[0] == "-A":
			v := VirtualServer{Protocol: protocol, Address: f[2], Scheduler: after(f, "-s")}
			v.Persistence, _ = strconv.Atoi(after(f, "-p")) // none is 0
			out = append(out, v)
		case after(f, "-w") != "0":
			last := &out[len(out)-1]
			last.Real = append(last.Real, after(f, "-r"))
		}
	}
	return out
}

// after returns the word that follows the flag, "" if it is not there.
func after(words []string, flag string) string {
	if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}
