package util

import (
	"net"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// GetNodeIPs asks upstream and vipkit which addresses serve NodePorts.
func (npa *NodePortAddresses) GetNodeIPs(network NetworkInterfacer) ([]net.IP, error) {
	ips, err := npa.upstreamGetNodeIPs(network)
	if err != nil {
		return ips, err
	}
	local, err := network.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	q := shadow.NodeAddresses{Values: npa.cidrStrings, Family: v1.IPv4Protocol, All: npa.matchAll}
	if len(npa.cidrs) > 0 && netutils.IsIPv6CIDR(npa.cidrs[0]) {
		q.Family = v1.IPv6Protocol
	}
	for _, a := range local {
		if n, ok := a.(*net.IPNet); ok {
			q.Local = append(q.Local, vipkitAddress(n.IP))
		}
	}
	var theirs []netip.Addr
	for _, ip := range ips {
		theirs = append(theirs, vipkitAddress(ip))
	}
	shadow.CompareNodeAddresses(q, theirs)
	return ips, nil
}

func vipkitAddress(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// ShouldSkipService asks upstream and vipkit.
func ShouldSkipService(service *v1.Service) bool {
	skip := upstreamShouldSkipService(service)
	shadow.CompareSkip(service, skip)
	return skip
}

// GetClusterIPByFamily asks upstream and vipkit, but for a Service that proxies skip.
func GetClusterIPByFamily(family v1.IPFamily, service *v1.Service) string {
	ip := upstreamGetClusterIPByFamily(family, service)
	if !upstreamShouldSkipService(service) {
		shadow.CompareClusterIP(service, family, ip)
	}
	return ip
}
