package allocator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// prepare brings the new object into the form that the other steps expect.
func (p *planner) prepare() {
	if p.before != nil {
		p.carryOverAddresses()
		p.carryOverPorts()
	}
	p.normalizeAddresses()
	if p.before != nil {
		p.clearUnused()
	}
}

// defaultStored fills in what an object has that was stored before its fields
// existed, as the API does when it is read.
func (p *planner) defaultStored() {
	spec := &p.before.Spec
	if !needsAddress(p.before) {
		return
	}
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = p.storedFamilies()
	}
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) == 2 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
}

func (p *planner) storedFamilies() []corev1.IPFamily {
	primary := p.cluster.Families[0]
	switch {
	case isHeadless(p.before) && len(p.before.Spec.Selector) == 0:
		return []corev1.IPFamily{primary, otherFamily(primary)}
	case isHeadless(p.before):
		return []corev1.IPFamily{primary}
	}
	var families []corev1.IPFamily
	for _, text := range p.before.Spec.ClusterIPs {
		if addr, ok := ip.ParseAddr(text); ok {
			families = append(families, ip.Family(addr))
		}
	}
	return families
}

// carryOverAddresses copies addresses that the user left out.
func (p *planner) carryOverAddresses() {
	if !needsAddress(p.before) || !needsAddress(p.after) {
		return
	}
	before, after := &p.before.Spec, &p.after.Spec
	if after.ClusterIP == "" {
		after.ClusterIP = before.ClusterIP
	}
	if len(after.ClusterIPs) == 0 && after.ClusterIP == before.ClusterIP {
		after.ClusterIPs = slices.Clone(before.ClusterIPs)
	}
}

// normalizeAddresses makes clusterIP and clusterIPs say the same where the user
// touched only one of them.
func (p *planner) normalizeAddresses() {
	spec := &p.after.Spec
	if p.before == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	old := &p.before.Spec
	sameOne, sameAll := spec.ClusterIP == old.ClusterIP, slices.Equal(spec.ClusterIPs, old.ClusterIPs)
	switch {
	case len(spec.ClusterIPs) == 0 && sameOne:
		spec.ClusterIPs = slices.Clone(old.ClusterIPs)
	case len(spec.ClusterIPs) == 0 && spec.ClusterIP != "":
		spec.ClusterIPs = []string{spec.ClusterIP}
	case spec.ClusterIP == "" && sameAll:
		spec.ClusterIPs = nil
	case !sameOne && sameAll:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// carryOverPorts copies node ports that the user left out, in so far as no other
// entry uses them for the same protocol, and the health-check node port.
func (p *planner) carryOverPorts() {
	switch {
	case !getsNodePorts(p.before), !getsNodePorts(p.after):
	case p.cluster.UpstreamNodePorts:
		p.carryOverByName()
	default:
		p.carryOverNodePorts()
	}
	if needsHealthPort(p.before) && needsHealthPort(p.after) && p.after.Spec.HealthCheckNodePort == 0 {
		p.after.Spec.HealthCheckNodePort = p.before.Spec.HealthCheckNodePort
	}
}

func (p *planner) carryOverNodePorts() {
	ports := p.after.Spec.Ports
	used := usedNodePorts(ports)
	for i := range ports {
		if ports[i].NodePort != 0 {
			continue
		}
		old := p.formerPort(&ports[i])
		if old == nil || used[portUse{old.NodePort, ports[i].Protocol}] {
			continue
		}
		ports[i].NodePort = old.NodePort
		used[portUse{old.NodePort, ports[i].Protocol}] = true
	}
}

// carryOverByName copies node ports as API servers do: to the entry of the same
// name, unless an entry asks for the number, of whatever protocol.
func (p *planner) carryOverByName() {
	ports := p.after.Spec.Ports
	asked := map[int32]bool{}
	for _, sp := range ports {
		asked[sp.NodePort] = true
	}
	former := map[string]int32{}
	for _, sp := range p.before.Spec.Ports {
		former[sp.Name] = sp.NodePort
	}
	for i := range ports {
		if number := former[ports[i].Name]; ports[i].NodePort == 0 && !asked[number] {
			ports[i].NodePort = number
		}
	}
}

// formerPort returns the old entry that became port: the one of that name, else
// one of the same number and protocol whose name is gone.
func (p *planner) formerPort(port *corev1.ServicePort) *corev1.ServicePort {
	old := p.before.Spec.Ports
	named := func(ports []corev1.ServicePort, name string) int {
		return slices.IndexFunc(ports, func(sp corev1.ServicePort) bool { return sp.Name == name })
	}
	if i := named(old, port.Name); i >= 0 {
		return &old[i]
	}
	i := slices.IndexFunc(old, func(sp corev1.ServicePort) bool {
		return sp.Port == port.Port && sp.Protocol == port.Protocol && named(p.after.Spec.Ports, sp.Name) < 0
	})
	if i < 0 {
		return nil
	}
	return &old[i]
}

// clearUnused clears fields that do not apply to the new type, if the user left
// them as they were. What the user did change is left for validation.
func (p *planner) clearUnused() {
	before, after := &p.before.Spec, &p.after.Spec
	if needsAddress(p.before) && !needsAddress(p.after) {
		p.clearAddresses()
	}
	if canHaveNodePorts(p.before) && !canHaveNodePorts(p.after) {
		p.clearNodePorts()
	}
	if !needsHealthPort(p.after) && after.HealthCheckNodePort == before.HealthCheckNodePort {
		after.HealthCheckNodePort = 0
	}
	if !isLoadBalancer(p.after) {
		if samePointee(after.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts) {
			after.AllocateLoadBalancerNodePorts = nil
		}
		if samePointee(after.LoadBalancerClass, before.LoadBalancerClass) {
			after.LoadBalancerClass = nil
		}
		p.after.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	reachable := canHaveNodePorts(p.after) || needsAddress(p.after) && len(after.ExternalIPs) > 0
	if !reachable && after.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		after.ExternalTrafficPolicy = ""
	}
}

// clearAddresses clears the addresses and families of what becomes an
// ExternalName.
func (p *planner) clearAddresses() {
	before, after := &p.before.Spec, &p.after.Spec
	if after.ClusterIP == before.ClusterIP {
		after.ClusterIP = ""
	}
	if slices.Equal(after.ClusterIPs, before.ClusterIPs) {
		after.ClusterIPs = nil
	}
	if slices.Equal(after.IPFamilies, before.IPFamilies) {
		after.IPFamilies = nil
	}
	if samePointee(after.IPFamilyPolicy, before.IPFamilyPolicy) {
		after.IPFamilyPolicy = nil
	}
}

// clearNodePorts clears node ports unless one of them is new.
func (p *planner) clearNodePorts() {
	for _, sp := range p.after.Spec.Ports {
		isOld := func(old corev1.ServicePort) bool { return old.NodePort == sp.NodePort }
		if sp.NodePort != 0 && !slices.ContainsFunc(p.before.Spec.Ports, isOld) {
			return
		}
	}
	for i := range p.after.Spec.Ports {
		p.after.Spec.Ports[i].NodePort = 0
	}
}

// samePointee reports whether both are nil or point to equal values.
func samePointee[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
