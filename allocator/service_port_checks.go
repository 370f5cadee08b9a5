package allocator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkEntries checks the ports but for their node ports: that there is one where
// one is needed, and that names and uses differ.
func (p *planner) checkEntries() {
	ports, path := p.after.Spec.Ports, specPath().Child("ports")
	if len(ports) == 0 && needsAddress(p.after) && !isHeadless(p.after) {
		p.fail(field.Required(path, "every type but ExternalName needs a port, unless headless"))
	}
	uses, names := map[portUse]bool{}, map[string]bool{}
	for i, sp := range ports {
		p.checkEntry(path.Index(i), sp)
		use := portUse{sp.Port, sp.Protocol}
		if uses[use] {
			p.fail(field.Duplicate(path.Index(i), fmt.Sprintf("%d/%s", sp.Port, sp.Protocol)))
		}
		switch {
		case sp.Name == "" && len(ports) > 1:
			p.fail(field.Required(path.Index(i).Child("name"), "one of several ports needs a name"))
		case names[sp.Name]:
			p.fail(field.Duplicate(path.Index(i).Child("name"), sp.Name))
		}
		uses[use], names[sp.Name] = true, true
	}
}

// checkEntry checks number and protocol of a port.
func (p *planner) checkEntry(path *field.Path, sp corev1.ServicePort) {
	if !validPort(sp.Port) {
		p.fail(field.Invalid(path.Child("port"), sp.Port, "not a port number"))
	}
	protocols := []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
	if !slices.Contains(protocols, sp.Protocol) {
		p.fail(field.NotSupported(path.Child("protocol"), sp.Protocol, protocols))
	}
}

// checkNodePorts checks the numbers that are given.
func (p *planner) checkNodePorts() {
	seen := map[portUse]bool{}
	owner := map[int32]int32{} // the port number that first gave a node port
	for i, sp := range p.after.Spec.Ports {
		path := specPath().Child("ports").Index(i).Child("nodePort")
		use := portUse{sp.NodePort, sp.Protocol}
		first, given := owner[sp.NodePort]
		switch {
		case sp.NodePort == 0:
			continue
		case p.after.Spec.Type == corev1.ServiceTypeClusterIP:
			p.fail(field.Forbidden(path, "not with type "+string(p.after.Spec.Type)))
		case seen[use]:
			p.fail(field.Duplicate(path, sp.NodePort))
		case !canHaveNodePorts(p.after): // the API lets an ExternalName have any, and gives it none
		case !validPort(sp.NodePort):
			p.fail(field.Invalid(path, sp.NodePort, "not a port number"))
		case p.upstreamCreate() && given && first != sp.Port:
			p.fail(field.Invalid(path, sp.NodePort, ErrTaken.Error()))
		}
		seen[use] = true
		if !given {
			owner[sp.NodePort] = sp.Port
		}
	}
}

func (p *planner) upstreamCreate() bool { return p.cluster.UpstreamNodePorts && p.before == nil }

func (p *planner) upstreamUpdate() bool { return p.cluster.UpstreamNodePorts && p.before != nil }

// checkHealthPort checks the health-check node port that is given or carried over.
func (p *planner) checkHealthPort() {
	number, path := p.after.Spec.HealthCheckNodePort, specPath().Child("healthCheckNodePort")
	isNodePort := func(sp corev1.ServicePort) bool { return sp.NodePort == number }
	switch {
	case number == 0:
	case !needsHealthPort(p.after):
		p.fail(field.Forbidden(path, "only with type LoadBalancer and externalTrafficPolicy Local"))
	case !validPort(number):
		p.fail(field.Invalid(path, number, "not a port number"))
	case p.before != nil && needsHealthPort(p.before) && number != p.before.Spec.HealthCheckNodePort:
		p.fail(field.Invalid(path, number, "cannot be changed"))
	case slices.ContainsFunc(p.after.Spec.Ports, isNodePort):
		p.fail(field.Duplicate(path, number))
	}
}
