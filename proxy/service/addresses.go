package service

import (
	"net"
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
	path := field.NewPath("spec", "clusterIP")
	if len(spec.IPFamilies) == 0 {
		if ip := r.parseIP(spec.ClusterIP, path); ip.IsValid() {
			s.Addresses(familyOf(ip)).ClusterIP = ip
		}
		return
	}
	ips, at := spec.ClusterIPs, func(i int) *field.Path { return field.NewPath("spec", "clusterIPs").Index(i) }
	if len(ips) == 0 {
		// The API server makes both fields agree; a hand-written object may have
		// the older one only.
		ips, at = []string{spec.ClusterIP}, func(int) *field.Path { return path }
	}
	for i, family := range spec.IPFamilies[:min(len(ips), len(spec.IPFamilies))] {
		known := family == corev1.IPv4Protocol || family == corev1.IPv6Protocol
		if !known || slices.Index(spec.IPFamilies, family) < i {
			continue
		}
		ip := r.parseIP(ips[i], at(i))
		if ip.IsValid() && familyOf(ip) != family {
			r.report(field.Invalid(at(i), ips[i], "must be of family "+string(family)))
			continue
		}
		s.Addresses(family).ClusterIP = ip
	}
}

func (r *reader) readExternalIPs(s *Service) {
	path := field.NewPath("spec", "externalIPs")
	for i, text := range r.externalIPs {
		if a, ip := r.addressesFor(s, text, path.Index(i)); a != nil {
			a.ExternalIPs = append(a.ExternalIPs, ip)
		}
	}
}

// readStatus takes the addresses that a load balancer passes on unchanged. With
// ipMode Proxy it does not (KEP-1860); an unknown mode is taken for the same.
func (r *reader) readStatus(s *Service) {
	path := field.NewPath("status", "loadBalancer", "ingress")
	for i := range r.svc.Status.LoadBalancer.Ingress {
		in := &r.svc.Status.LoadBalancer.Ingress[i]
		if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		at := path.Index(i).Child("ip")
		if !r.loadBalancer() {
			if strings.TrimSpace(in.IP) != "" {
				r.report(field.Forbidden(at, "counts only on a Service of type LoadBalancer"))
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
	path := field.NewPath("spec", "loadBalancerSourceRanges")
	invalid := false
	for i, text := range r.svc.Spec.LoadBalancerSourceRanges {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		p, ok := parsePrefix(text)
		if !ok {
			invalid = true
			r.report(field.Invalid(path.Index(i), text, "must be an IP range in CIDR notation"))
			continue
		}
		if a := s.Addresses(familyOf(p.Addr())); a.ClusterIP.IsValid() && r.loadBalancer() {
			a.SourceRanges = append(a.SourceRanges, p)
		}
	}
	for _, f := range s.Families() {
		a := s.Addresses(f)
		a.SourceRangesInvalid = invalid && r.loadBalancer() && len(a.SourceRanges) == 0
	}
}

// addressesFor parses text and returns the addresses of the Service in its family;
// nil if text is no address or the family is not proxied.
func (r *reader) addressesFor(s *Service, text string, path *field.Path) (*Addresses, netip.Addr) {
	ip := r.parseIP(text, path)
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
func (r *reader) parseIP(text string, path *field.Path) netip.Addr {
	if strings.TrimSpace(text) == "" {
		return netip.Addr{}
	}
	ip := canonical(netutils.ParseIPSloppy(text))
	if !ip.IsValid() {
		r.report(field.Invalid(path, text, "must be an IP address"))
	}
	return ip
}

func canonical(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// parsePrefix returns text as a canonical prefix with host bits cleared. A range
// inside ::ffff:0:0/96 is one of IPv4 addresses.
func parsePrefix(text string) (netip.Prefix, bool) {
	_, n, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	addr, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	if addr.Is4In6() {
		addr, bits = addr.Unmap(), bits-96
	}
	return netip.PrefixFrom(addr, bits), true
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
