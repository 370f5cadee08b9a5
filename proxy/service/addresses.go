package service

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// readClusterIPs fills in the ClusterIPs. An object from before ipFamilies has one
// family, that of its clusterIP.
func (r *reader) readClusterIPs(s *Service) {
	spec := &r.svc.Spec
	single := place{"spec.clusterIP", -1, ""}
	if len(spec.IPFamilies) == 0 {
		if ip := r.parseIP(spec.ClusterIP, single); ip.IsValid() {
			s.Addresses(familyOf(ip)).ClusterIP = ip
		}
		return
	}
	if len(spec.ClusterIPs) == 0 {
		// The API server makes both fields agree; a hand-written object may have
		// the older one only.
		r.readClusterIP(s, spec.IPFamilies[0], spec.ClusterIP, single)
		return
	}
	for i, family := range spec.IPFamilies[:min(len(spec.ClusterIPs), len(spec.IPFamilies))] {
		if slices.Index(spec.IPFamilies, family) == i {
			r.readClusterIP(s, family, spec.ClusterIPs[i], place{"spec.clusterIPs", i, ""})
		}
	}
}

// readClusterIP fills in the ClusterIP of one family, which may be an unknown one.
func (r *reader) readClusterIP(s *Service, family corev1.IPFamily, text string, at place) {
	if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
		return
	}
	ip := r.parseIP(text, at)
	if ip.IsValid() && familyOf(ip) != family {
		r.report(field.Invalid(at.path(), text, "must be of family "+string(family)))
		return
	}
	s.Addresses(family).ClusterIP = ip
}

func (r *reader) readExternalIPs(s *Service) {
	for i, text := range r.externalIPs {
		if a, ip := r.addressesFor(s, text, place{"spec.externalIPs", i, ""}); a != nil {
			a.ExternalIPs = append(a.ExternalIPs, ip)
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
		at := place{"status.loadBalancer.ingress", i, "ip"}
		if !r.loadBalancer() {
			if strings.TrimSpace(in.IP) != "" {
				r.report(field.Forbidden(at.path(), "counts only on a Service of type LoadBalancer"))
			}
			continue
		}
		if a, ip := r.addressesFor(s, in.IP, at); a != nil {
			a.LoadBalancerIPs = append(a.LoadBalancerIPs, ip)
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
		p, ok := lenientPrefix(text)
		if !ok {
			invalid = true
			r.report(field.Invalid(place{"spec.loadBalancerSourceRanges", i, ""}.path(), text, "must be an IP range in CIDR notation"))
			continue
		}
		if a := s.Addresses(familyOf(p.Addr())); a.ClusterIP.IsValid() && r.loadBalancer() {
			a.SourceRanges = append(a.SourceRanges, p)
		}
	}
	for _, a := range []*Addresses{&s.IPv4, &s.IPv6} {
		a.SourceRangesInvalid = invalid && a.ClusterIP.IsValid() && r.loadBalancer() && len(a.SourceRanges) == 0
	}
}

// addressesFor parses text and returns the addresses of the Service in its family;
// nil if text is no address or the family is not proxied.
func (r *reader) addressesFor(s *Service, text string, at place) (*Addresses, netip.Addr) {
	ip := r.parseIP(text, at)
	if !ip.IsValid() {
		return nil, ip
	}
	if a := s.Addresses(familyOf(ip)); a.ClusterIP.IsValid() {
		return a, ip
	}
	return nil, ip
}

// parseIP returns text as a canonical address, invalid if it is none: then it is
// reported unless it is blank.
func (r *reader) parseIP(text string, at place) netip.Addr {
	if strings.TrimSpace(text) == "" {
		return netip.Addr{}
	}
	ip := lenientIP(text)
	if !ip.IsValid() {
		r.report(field.Invalid(at.path(), text, "must be an IP address"))
	}
	return ip
}

// lenientIP returns text as a canonical address, invalid if it is none. What only
// the lenient parser of the API server reads are IPv4 octets with leading zeros; it
// is slower.
func lenientIP(text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		a, _ = netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	}
	return a.Unmap()
}

// lenientPrefix returns text as a canonical prefix with host bits cleared. A range
// inside ::ffff:0:0/96 is one of IPv4 addresses.
func lenientPrefix(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		_, n, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		addr, _ := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		p = netip.PrefixFrom(addr, bits)
	}
	p = p.Masked()
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, true
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

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}
