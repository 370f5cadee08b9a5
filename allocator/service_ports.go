package allocator

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A portUse is a node port for one protocol.
type portUse struct {
	number   int32
	protocol corev1.Protocol
}

// usedNodePorts returns the node ports that are set.
func usedNodePorts(ports []corev1.ServicePort) map[portUse]bool {
	used := map[portUse]bool{}
	for _, sp := range ports {
		if sp.NodePort != 0 {
			used[portUse{sp.NodePort, sp.Protocol}] = true
		}
	}
	return used
}

// portValues returns the ports that a stored Service holds, each number once,
// node ports in the order of spec.ports first.
func portValues(svc *corev1.Service) []Value {
	var values []Value
	add := func(kind ValueKind, number int32) {
		has := func(v Value) bool { return int32(v.Port) == number }
		if validPort(number) && !slices.ContainsFunc(values, has) {
			values = append(values, Value{Kind: kind, Port: uint16(number)})
		}
	}
	if canHaveNodePorts(svc) {
		for _, sp := range svc.Spec.Ports {
			add(NodePort, sp.NodePort)
		}
	}
	if needsHealthPort(svc) {
		add(HealthCheckNodePort, svc.Spec.HealthCheckNodePort)
	}
	return values
}

func validPort(number int32) bool { return 0 < number && number <= math.MaxUint16 }

// planPorts plans node ports and the health-check node port.
func (p *planner) planPorts() {
	p.checkEntries()
	p.checkNodePorts()
	p.checkHealthPort()
	if len(p.errs) > 0 {
		return
	}
	if getsNodePorts(p.after) {
		p.shareNodePorts()
	}
	var had []Value
	if p.before != nil {
		had = portValues(p.before)
	}
	has := portValues(p.after)
	for _, v := range has {
		if !slices.ContainsFunc(had, v.samePort) {
			p.claimPort(v)
		}
	}
	if getsNodePorts(p.after) {
		p.claimUnset()
	}
	if needsHealthPort(p.after) && p.after.Spec.HealthCheckNodePort == 0 {
		p.claimPort(Value{Kind: HealthCheckNodePort})
	}
	for _, v := range had {
		if !slices.ContainsFunc(has, v.samePort) {
			p.plan.Releases = append(p.plan.Releases, v)
		}
	}
}

func (v Value) samePort(other Value) bool { return v.Port == other.Port }

// shareNodePorts gives entries without node port the one of an entry with the
// same port number and another protocol.
func (p *planner) shareNodePorts() {
	if p.upstreamUpdate() {
		return
	}
	ports := p.after.Spec.Ports
	used := usedNodePorts(ports)
	for i := range ports {
		if ports[i].NodePort != 0 {
			continue
		}
		twin := slices.IndexFunc(ports, func(sp corev1.ServicePort) bool {
			return sp.Port == ports[i].Port && sp.NodePort != 0 && !used[portUse{sp.NodePort, ports[i].Protocol}]
		})
		if twin >= 0 {
			ports[i].NodePort = ports[twin].NodePort
			used[portUse{ports[i].NodePort, ports[i].Protocol}] = true
		}
	}
}

// claimUnset plans a node port for each entry that has none, or for several that
// differ in the protocol only.
func (p *planner) claimUnset() {
	ports := p.after.Spec.Ports
	done := make([]bool, len(ports))
	for i := range ports {
		if ports[i].NodePort != 0 || done[i] {
			continue
		}
		protocols := map[corev1.Protocol]bool{}
		var entries []int
		for j := i; j < len(ports); j++ {
			twin := ports[j].NodePort == 0 && !done[j] && ports[j].Port == ports[i].Port && !protocols[ports[j].Protocol]
			if j == i || twin && !p.upstreamUpdate() {
				entries = append(entries, j)
				protocols[ports[j].Protocol] = true
				done[j] = true
			}
		}
		p.plan.Claims = append(p.plan.Claims, ServiceClaim{
			Value: Value{Kind: NodePort}, Path: nodePortPath(i), Entries: entries,
		})
	}
}

// claimPort plans the claim of a number that is given, or of any health-check
// node port.
func (p *planner) claimPort(v Value) {
	c := ServiceClaim{Value: v, Path: specPath().Child("healthCheckNodePort")}
	if v.Kind == NodePort {
		for i, sp := range p.after.Spec.Ports {
			if sp.NodePort == int32(v.Port) {
				c.Entries = append(c.Entries, i)
			}
		}
		c.Path = nodePortPath(c.Entries[0])
	}
	p.plan.Claims = append(p.plan.Claims, c)
}

func nodePortPath(i int) *field.Path { return specPath().Child("ports").Index(i).Child("nodePort") }
