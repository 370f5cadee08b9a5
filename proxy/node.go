package proxy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// SetNode takes the current values of the node: whatever depends on one that
// changed is computed again in the next round, nothing else. The same values do nothing.
func (p *Proxy) SetNode(node plan.Node) {
	node.Addresses = slices.Clone(node.Addresses)
	node.PodCIDRs = slices.Clone(node.PodCIDRs)
	defer p.events.drain()
	p.configure(func(c *plan.Config) bool {
		if sameNode(c.Node, node) {
			return false
		}
		c.Node = node
		return true
	})
}

// configure changes the configuration and asks for a round if change says so.
// The caller drains the events.
func (p *Proxy) configure(change func(*plan.Config) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if change(&p.config) {
		p.changed = true
		p.request()
	}
}

func sameNode(a, b plan.Node) bool {
	return a.Name == b.Name && a.Zone == b.Zone &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.PodCIDRs, b.PodCIDRs)
}

// ReadNode returns what a Plan needs of a Node: its name, the label
// topology.kubernetes.io/zone, its addresses, and the pod CIDRs. The addresses are those of type
// InternalIP in their order, then those of type ExternalIP: the first of each family, which is
// the primary one, is an ExternalIP only if there is no InternalIP of the family.
// Who does not take the pod CIDRs from the Node replaces them. What cannot be
// read is left out and reported. A nil Node gives zero values.
func ReadNode(node *corev1.Node) (plan.Node, []plan.Problem) {
	if node == nil {
		return plan.Node{}, nil
	}
	n := plan.Node{Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone]}
	var errs field.ErrorList
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		n.Addresses, errs = readAddresses(node, kind, n.Addresses, errs)
	}
	n.PodCIDRs, errs = readPodCIDRs(node, errs)
	return n, toProblems(objectName(kindNode, "", node.Name), errs)
}

// readAddresses appends the addresses of one type that are not in list yet.
func readAddresses(node *corev1.Node, kind corev1.NodeAddressType, list []netip.Addr, errs field.ErrorList) ([]netip.Addr, field.ErrorList) {
	for i, a := range node.Status.Addresses {
		if a.Type != kind {
			continue
		}
		addr, ok := ip.ParseAddr(a.Address)
		if !ok {
			path := field.NewPath("status", "addresses").Index(i).Child("address")
			errs = append(errs, field.Invalid(path, a.Address, "must be an IP address"))
		} else if !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return list, errs
}

// readPodCIDRs reads spec.podCIDRs, or the older spec.podCIDR if there are none.
func readPodCIDRs(node *corev1.Node, errs field.ErrorList) ([]netip.Prefix, field.ErrorList) {
	spec := field.NewPath("spec")
	if len(node.Spec.PodCIDRs) == 0 && node.Spec.PodCIDR != "" {
		prefix, err := readPrefix(spec.Child("podCIDR"), node.Spec.PodCIDR)
		if err != nil {
			return nil, append(errs, err)
		}
		return []netip.Prefix{prefix}, errs
	}
	prefixes, more := readPrefixes(spec.Child("podCIDRs"), node.Spec.PodCIDRs)
	return prefixes, append(errs, more...)
}

// SetServiceCIDR takes the current version of a ServiceCIDR: a range counts as long
// as an object, or the Config of the [Options], has it. A change asks for a round.
func (p *Proxy) SetServiceCIDR(cidr *networkingv1.ServiceCIDR) {
	if cidr == nil {
		return
	}
	p.takeCIDRs(func() {
		prefixes, errs := readServiceCIDR(cidr)
		p.cidrs[cidr.Name] = prefixes
		p.report(objectName(kindServiceCIDR, "", cidr.Name), errs)
	})
}

// DeleteServiceCIDR forgets a ServiceCIDR; an unknown name does nothing.
func (p *Proxy) DeleteServiceCIDR(name string) {
	p.takeCIDRs(func() {
		delete(p.cidrs, name)
		p.report(objectName(kindServiceCIDR, "", name), nil)
	})
}

// ReplaceServiceCIDRs takes the complete list of ServiceCIDRs: those not in it
// are forgotten.
func (p *Proxy) ReplaceServiceCIDRs(cidrs []*networkingv1.ServiceCIDR) {
	p.takeCIDRs(func() {
		clear(p.cidrs)
		all := make(map[string]field.ErrorList, len(cidrs))
		for _, cidr := range cidrs {
			if cidr == nil {
				continue
			}
			prefixes, errs := readServiceCIDR(cidr)
			p.cidrs[cidr.Name] = prefixes
			all[objectName(kindServiceCIDR, "", cidr.Name)] = errs
		}
		p.problemEvents(p.problems.replace(kindServiceCIDR, all))
	})
}

// takeCIDRs runs set, which changes cidrs, and makes the union the
// configuration's.
func (p *Proxy) takeCIDRs(set func()) {
	defer p.events.drain()
	p.input.Lock()
	defer p.input.Unlock()
	set()
	union := mergePrefixes(p.opts.Config.ServiceCIDRs, p.cidrs)
	p.configure(func(c *plan.Config) bool {
		if slices.Equal(c.ServiceCIDRs, union) {
			return false
		}
		c.ServiceCIDRs = union
		return true
	})
}

func readServiceCIDR(cidr *networkingv1.ServiceCIDR) ([]netip.Prefix, field.ErrorList) {
	return readPrefixes(field.NewPath("spec", "cidrs"), cidr.Spec.CIDRs)
}

func readPrefixes(path *field.Path, values []string) ([]netip.Prefix, field.ErrorList) {
	var prefixes []netip.Prefix
	var errs field.ErrorList
	for i, value := range values {
		prefix, err := readPrefix(path.Index(i), value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, errs
}

func readPrefix(path *field.Path, value string) (netip.Prefix, *field.Error) {
	prefix, ok := ip.ParsePrefix(value)
	if !ok {
		return netip.Prefix{}, field.Invalid(path, value, "must be an IP range in CIDR notation")
	}
	return prefix, nil
}

// mergePrefixes returns the union of static and all lists, sorted.
func mergePrefixes(static []netip.Prefix, byName map[string][]netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, prefix := range static {
		all = append(all, ip.CanonicalPrefix(prefix))
	}
	for _, list := range byName {
		all = append(all, list...)
	}
	slices.SortFunc(all, ip.ComparePrefixes)
	return slices.Compact(all)
}
