package allocator

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A ClusterConfig is what planning needs to know about a cluster.
type ClusterConfig struct {
	// Families are the families of the cluster's Services, the primary one first:
	// one or two.
	Families []corev1.IPFamily

	// UpstreamNodePorts makes the sharing of node ports that of API servers, which
	// differs between create and update. On create, two entries with different
	// port numbers may not ask for the same node port, even with different
	// protocols. On update, entries without a node port get one each, even if
	// they differ in the protocol only; a node port is carried over by the name of
	// the port only, and never if another entry asks for the number. See [Plan] for
	// the default.
	UpstreamNodePorts bool
}

// A ValueKind is a kind of value that a Service gets.
type ValueKind uint8

// The kinds of values. Node ports and health-check node ports are of one range.
const (
	ClusterIP ValueKind = iota
	NodePort
	HealthCheckNodePort
)

// A Value is an address or a port of a Service.
type Value struct {
	Kind   ValueKind
	Family corev1.IPFamily // of a ClusterIP
	Addr   netip.Addr      // of a ClusterIP
	Port   uint16          // of the other kinds
}

// A ServiceClaim is a value that a Service needs and does not have.
type ServiceClaim struct {
	// Value says what is needed. Its Addr or Port is zero if any will do.
	Value Value

	// Path is the field that the value is for, the first one of several.
	Path *field.Path

	// Entries are the indexes in spec.clusterIPs or spec.ports that get the value:
	// one address, or all ports that share a node port.
	Entries []int
}

// Explicit reports whether a certain value was asked for.
func (c ServiceClaim) Explicit() bool { return c.Value.Addr.IsValid() || c.Value.Port != 0 }

// A ServicePlan says what a change of a Service needs and what it no longer
// needs. [Services.Apply] carries it out.
type ServicePlan struct {
	// Service is the new object with families, carried over values and cleared
	// fields, but without the values of Claims. It is nil if the Service is
	// deleted. It is a copy, and belongs to the plan.
	Service *corev1.Service

	// Owner is the Service as owner of its values.
	Owner Owner

	// Claims are in the order in which they are to be made: explicit ones first,
	// so that no automatic one takes what another field asks for.
	Claims []ServiceClaim

	// Releases are what the old object has and the new one does not.
	Releases []Value
}

// Plan works out what it takes to create a Service (before is nil), to delete it
// (after is nil), or to change it. It is pure and deterministic: it looks at no
// pool, and changes neither object. before must be as it is stored, after as the
// user sent it, with the defaults of the API.
//
// The errors are those that API validation has for the type, addresses, families,
// and for name, number, protocol and node port of the ports; other fields are not
// looked at. A type or protocol that is empty gets the default of the API. There is
// no plan if there is an error, and a deletion has none.
//
// Values that the user left out on update are carried over from before: node
// ports by the name of the port, else by its number and protocol. Fields that no
// longer apply are cleared if the user did not change them.
//
// Node ports: numbers that are given are honoured before any other is drawn.
// Entries without number share one with entries of the same port number and
// another protocol: a given or carried over one, else one that is drawn for all
// of them. Any two entries of different protocols may give the same number. This
// holds on create and update alike; API servers do something else in each case,
// see [ClusterConfig].
func Plan(before, after *corev1.Service, cluster ClusterConfig) (*ServicePlan, field.ErrorList) {
	if err := cluster.validate(); err != nil {
		return nil, field.ErrorList{err}
	}
	p := &planner{cluster: cluster, plan: &ServicePlan{}}
	if before != nil {
		p.before = before.DeepCopy()
		p.defaultStored()
		p.plan.Owner = ServiceOwner(before)
	}
	if after == nil {
		if before != nil {
			p.releaseAll()
		}
		return p.plan, nil
	}
	p.after = after.DeepCopy()
	p.defaultSent()
	if before == nil {
		p.plan.Owner = ServiceOwner(after)
	}
	p.plan.Service = p.after
	p.checkType()
	p.prepare()
	p.planFamilies()
	if len(p.errs) == 0 { // addresses follow the families
		p.planAddresses()
	}
	p.planPorts()
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	p.orderClaims()
	return p.plan, nil
}

func (c ClusterConfig) validate() *field.Error {
	path := field.NewPath("spec", "ipFamilies")
	switch {
	case len(c.Families) == 0, len(c.Families) > 2, len(c.Families) == 2 && c.Families[0] == c.Families[1]:
	case unknownFamily(c.Families[0]), unknownFamily(c.Families[len(c.Families)-1]):
	default:
		return nil
	}
	return field.InternalError(path, &Error{Op: "plan", Value: "cluster with families " + text(c.Families), Err: ErrNoRange})
}

// A planner is the work on one [Plan]. before is nil on create.
type planner struct {
	before, after *corev1.Service // copies
	cluster       ClusterConfig
	plan          *ServicePlan
	errs          field.ErrorList
}

func (p *planner) fail(err *field.Error) { p.errs = append(p.errs, err) }

// releaseAll plans the releases of a Service that is deleted.
func (p *planner) releaseAll() {
	p.releaseAddresses(0)
	p.plan.Releases = append(p.plan.Releases, portValues(p.before)...)
}

// orderClaims puts explicit claims first and keeps the order otherwise.
func (p *planner) orderClaims() {
	var explicit, automatic []ServiceClaim
	for _, c := range p.plan.Claims {
		if c.Explicit() {
			explicit = append(explicit, c)
		} else {
			automatic = append(automatic, c)
		}
	}
	p.plan.Claims = append(explicit, automatic...)
}

// defaultSent fills in the defaults of the API that the other steps need.
func (p *planner) defaultSent() {
	spec := &p.after.Spec
	spec.Type = cmp.Or(spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		spec.Ports[i].Protocol = cmp.Or(spec.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func (p *planner) checkType() {
	known := []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}
	if !slices.Contains(known, p.after.Spec.Type) {
		p.fail(field.NotSupported(specPath().Child("type"), p.after.Spec.Type, known))
	}
}

func specPath() *field.Path { return field.NewPath("spec") }

// needsAddress reports whether Services of this type have ClusterIPs, or None.
func needsAddress(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName
}

func isHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

func isLoadBalancer(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// canHaveNodePorts reports whether ports of this type may have node ports.
func canHaveNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || isLoadBalancer(svc)
}

// getsNodePorts reports whether ports get node ports that are not asked for.
func getsNodePorts(svc *corev1.Service) bool {
	allocate := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == corev1.ServiceTypeNodePort || isLoadBalancer(svc) && (allocate == nil || *allocate)
}

func needsHealthPort(svc *corev1.Service) bool {
	return isLoadBalancer(svc) && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
