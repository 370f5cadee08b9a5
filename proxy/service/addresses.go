package service

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/internal/special"
)

// readClusterIPs fills in the ClusterIPs and reports each address and each family that it
// has no use for. An object from before ipFamilies has one family, that of its clusterIP.
func (r *reader) readClusterIPs(s *Service) {
	spec, single := &r.svc.Spec, fieldAt{"spec.clusterIP", -1, ""}
	if strings.TrimSpace(spec.ClusterIP) == "" {
		r.report(field.Required(single.path(), "without a ClusterIP the Service is not proxied"))
		return
	}
	ips, families := spec.ClusterIPs, spec.IPFamilies
	if len(ips) > 0 && !ip.SameAddr(ips[0], spec.ClusterIP) {
		r.report(field.Invalid(fieldAt{"spec.clusterIPs", 0, ""}.path(), ips[0], "must be spec.clusterIP"))
	}
	if len(families) == 0 {
		addr := r.parseIP(spec.ClusterIP, single)
		if !addr.IsValid() {
			return
		}
		families = []corev1.IPFamily{ip.Family(addr)}
	}
	// The API server makes both fields agree; a hand-written object may have the older one only.
	older := len(ips) == 0 || len(spec.IPFamilies) == 0
	if older {
		ips = append([]string{spec.ClusterIP}, ips[min(1, len(ips)):]...)
	}
	for i := range max(len(ips), len(families)) {
		at := fieldAt{"spec.clusterIPs", i, ""}
		if i == 0 && older {
			at = single
		}
		if r.paired(ips, families, i, at) {
			r.readClusterIP(s, families[i], ips[i], at)
		}
	}
}

// paired reports whether index i has both an address and a known family. Otherwise it adds
// a problem.
func (r *reader) paired(ips []string, families []corev1.IPFamily, i int, at fieldAt) bool {
	inFamilies := fieldAt{"spec.ipFamilies", i, ""}
	switch {
	case i >= len(families):
		r.report(field.Invalid(at.path(), ips[i], "has no family in spec.ipFamilies"))
	case families[i] != corev1.IPv4Protocol && families[i] != corev1.IPv6Protocol:
		r.report(field.NotSupported(inFamilies.path(), families[i], []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
	case slices.Index(families, families[i]) < i:
		r.report(field.Duplicate(inFamilies.path(), families[i]))
	case i >= len(ips) || strings.TrimSpace(ips[i]) == "":
		r.report(field.Required(at.path(), "family "+string(families[i])+" has no ClusterIP and is not proxied"))
	default:
		return true
	}
	return false
}

// readClusterIP fills in the ClusterIP of one family. The API lets it be of a range of
// link-local addresses.
func (r *reader) readClusterIP(s *Service, family corev1.IPFamily, text string, at fieldAt) {
	addr := r.parseIP(text, at)
	reason := ""
	switch {
	case !addr.IsValid():
		return
	case ip.Family(addr) != family:
		reason = "must be of family " + string(family)
	case !addr.IsLinkLocalUnicast():
		reason = special.Reason(addr)
	}
	if reason != "" {
		r.report(field.Invalid(at.path(), text, reason))
		return
	}
	s.Addresses(family).ClusterIP = addr
}

func (r *reader) readExternalIPs(s *Service) {
	for i, text := range r.externalIPs {
		if a, addr := r.addressesFor(s, text, fieldAt{"spec.externalIPs", i, ""}); a != nil {
			a.ExternalIPs = append(a.ExternalIPs, addr)
		}
	}
}

// readStatus takes the addresses that a load balancer passes on unchanged. With
// ipMode Proxy it does not (KEP-1860); an unknown mode is taken for the same.
func (r *reader) readStatus(s *Service) {
	for i := range r.svc.Status.LoadBalancer.Ingress {
		in := &r.svc.Status.LoadBalancer.Ingress[i]
		if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		at := fieldAt{"status.loadBalancer.ingress", i, "ip"}
		if !r.loadBalancer() {
			if strings.TrimSpace(in.IP) != "" {
				r.report(field.Forbidden(at.path(), "counts only on a Service of type LoadBalancer"))
			}
			continue
		}
		if a, addr := r.addressesFor(s, in.IP, at); a != nil {
			a.LoadBalancerIPs = append(a.LoadBalancerIPs, addr)
		}
	}
}

// readSourceRanges reports bad ranges whatever the type of the Service, but uses
// them only where there can be load-balancer IPs.
func (r *reader) readSourceRanges(s *Service) {
	invalid := false
	for i, text := range r.svc.Spec.LoadBalancerSourceRanges {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		p, ok := ip.ParsePrefix(text)
		if !ok {
			invalid = true
			r.report(field.Invalid(fieldAt{"spec.loadBalancerSourceRanges", i, ""}.path(), text, "must be an IP range in CIDR notation"))
			continue
		}
		if a := s.Addresses(ip.Family(p.Addr())); a.ClusterIP.IsValid() && r.loadBalancer() {
			a.SourceRanges = append(a.SourceRanges, p)
		}
	}
	for _, a := range []*Addresses{&s.IPv4, &s.IPv6} {
		a.SourceRangesInvalid = invalid && a.ClusterIP.IsValid() && r.loadBalancer() && len(a.SourceRanges) == 0
	}
}

// addressesFor parses text and returns the addresses of the Service in its family;
// nil if text is no address that clients can dial or the ClusterIP, or the family is not proxied.
func (r *reader) addressesFor(s *Service, text string, at fieldAt) (*Addresses, netip.Addr) {
	addr := r.parseIP(text, at)
	if !addr.IsValid() {
		return nil, addr
	}
	if reason := special.Reason(addr); reason != "" {
		r.report(field.Invalid(at.path(), text, reason))
		return nil, addr
	}
	a := s.Addresses(ip.Family(addr))
	switch {
	case a.ClusterIP == addr:
		// The ClusterIP owns the address, with the actions of a ClusterIP.
		r.report(field.Invalid(at.path(), text, "is the Service's own ClusterIP: source ranges and externalTrafficPolicy do not bind it"))
	case a.ClusterIP.IsValid():
		return a, addr
	}
	return nil, addr
}

// parseIP returns text as a canonical address, invalid if it is none: then it is
// reported unless it is blank.
func (r *reader) parseIP(text string, at fieldAt) netip.Addr {
	if strings.TrimSpace(text) == "" {
		return netip.Addr{}
	}
	addr, ok := ip.ParseAddr(text)
	if !ok {
		r.report(field.Invalid(at.path(), text, "must be an IP address"))
	}
	return addr
}

// unique removes what is twice in a list. The API allows it and sets no limit to
// the length.
func (a *Addresses) unique() {
	a.ExternalIPs = unique(a.ExternalIPs)
	a.LoadBalancerIPs = unique(a.LoadBalancerIPs)
	a.SourceRanges = unique(a.SourceRanges)
}

func unique[T comparable](list []T) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		again := seen[v]
		seen[v] = true
		return again
	})
}
