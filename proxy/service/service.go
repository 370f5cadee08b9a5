package service

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/internal/printable"
)

// A PortName names a Service port: the key of everything that is done for it.
type PortName struct {
	types.NamespacedName
	Port     string // "" if the port has no name
	Protocol corev1.Protocol
}

// String returns "namespace/name:port", or "namespace/name" for an unnamed port.
// The protocol is no part of it. What cannot be printed is escaped.
func (n PortName) String() string {
	if n.Port == "" {
		return printable.Text(n.NamespacedName.String())
	}
	return printable.Text(n.NamespacedName.String() + ":" + n.Port)
}

// Compare orders by namespace, name, port name and protocol.
func (n PortName) Compare(o PortName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name),
		strings.Compare(n.Port, o.Port), strings.Compare(string(n.Protocol), string(o.Protocol)))
}

// A Service is what a proxy uses of a v1.Service, for both IP families. It is
// immutable and safe for concurrent use; a Service that did not change stays the
// same pointer.
type Service struct {
	Name types.NamespacedName

	// Created is the creationTimestamp in UTC; the zero time counts as the oldest. It
	// decides between two Services that claim one address.
	Created time.Time

	// Ports are sorted by name and protocol, which together are unique. There may
	// be none.
	Ports []Port

	// IPv4 and IPv6 hold the addresses of each family. A family without a
	// ClusterIP is not proxied and has no other addresses. A Service of a tracker
	// has at least one family.
	IPv4, IPv6 Addresses

	// InternalLocal and ExternalLocal are the traffic policies: Local if true,
	// Cluster if false. ExternalLocal is false where the policy has no meaning:
	// on a Service of type ClusterIP without external IPs.
	InternalLocal, ExternalLocal bool

	// HealthCheckNodePort is 0 unless the type is LoadBalancer and the external
	// policy Local.
	HealthCheckNodePort uint16

	// AffinityTimeout is how long a client stays with an endpoint after its last
	// connection, 1 s to 24 h; 0 means no session affinity.
	AffinityTimeout time.Duration

	// Ext is what a hook attached, nil if nothing. It is compared with ==.
	Ext any
}

// A Port is one port of a Service.
type Port struct {
	Name     string // "" if it has none
	Protocol corev1.Protocol
	Port     uint16 // of the ClusterIP, external and load-balancer IPs
	NodePort uint16 // 0 if none
}

// Addresses are the addresses of a Service in one family. They are canonical: no
// IPv4 address is mapped into IPv6, none has a zone. No list has anything twice.
type Addresses struct {
	ClusterIP netip.Addr // invalid if the family is not proxied

	// ExternalIPs and LoadBalancerIPs are in the order of the object.
	ExternalIPs, LoadBalancerIPs []netip.Addr

	// SourceRanges are who may use the load-balancer IPs, with host bits cleared,
	// in the order of the object. Empty means that no usable range of this family
	// was given, or that the type is not LoadBalancer.
	SourceRanges []netip.Prefix

	// SourceRangesInvalid is true if SourceRanges is empty although at least one
	// range was given that could not be parsed.
	SourceRangesInvalid bool
}

// Families lists the families that the Service is proxied in: IPv4, IPv6, both or none.
func (s *Service) Families() []corev1.IPFamily {
	var f []corev1.IPFamily
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if s.Addresses(family).ClusterIP.IsValid() {
			f = append(f, family)
		}
	}
	return f
}

// Addresses returns the addresses of one family. A nil Service has none, nor a policy.
func (s *Service) Addresses(f corev1.IPFamily) *Addresses {
	if s == nil {
		return &Addresses{}
	}
	if f == corev1.IPv6Protocol {
		return &s.IPv6
	}
	return &s.IPv4
}

// Policy returns what decides which endpoints port uses in family f.
func (s *Service) Policy(port Port, f corev1.IPFamily) Policy {
	if s == nil {
		return Policy{}
	}
	a := s.Addresses(f)
	return Policy{
		InternalLocal: s.InternalLocal,
		ExternalLocal: s.ExternalLocal,
		External:      port.NodePort != 0 || len(a.LoadBalancerIPs) > 0 || len(a.ExternalIPs) > 0,
	}
}

// A Policy says which lists of endpoints a Service port uses.
type Policy struct {
	InternalLocal bool // internalTrafficPolicy is Local
	ExternalLocal bool // externalTrafficPolicy is Local
	External      bool // there is a frontend besides the ClusterIP
}

// UsesCluster reports whether some frontend uses endpoints of the whole cluster.
func (p Policy) UsesCluster() bool { return !p.InternalLocal || p.External }

// UsesLocal reports whether some frontend uses the endpoints of this node only.
func (p Policy) UsesLocal() bool { return p.InternalLocal || p.ExternalLocal && p.External }
