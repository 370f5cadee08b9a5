package service

import (
	"slices"

	"github.com/vipkit/vipkit/internal/ext"
)

// equal reports whether a and b are the same in every field.
func equal(a, b *Service) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return a.Name == b.Name && a.Created.Equal(b.Created) && slices.Equal(a.Ports, b.Ports) &&
		equalAddresses(&a.IPv4, &b.IPv4) && equalAddresses(&a.IPv6, &b.IPv6) &&
		a.InternalLocal == b.InternalLocal && a.ExternalLocal == b.ExternalLocal &&
		a.AffinityTimeout == b.AffinityTimeout && a.HealthCheckNodePort == b.HealthCheckNodePort && ext.Equal(a.Ext, b.Ext)
}

func equalAddresses(a, b *Addresses) bool {
	return a.ClusterIP == b.ClusterIP && slices.Equal(a.ExternalIPs, b.ExternalIPs) &&
		slices.Equal(a.LoadBalancerIPs, b.LoadBalancerIPs) && slices.Equal(a.SourceRanges, b.SourceRanges) &&
		a.SourceRangesInvalid == b.SourceRangesInvalid
}
