package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ext"
)

// labelProxyName names the proxy that serves a Service; without it, the default
// one does (KEP-2447).
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// The range and default of sessionAffinityConfig.clientIP.timeoutSeconds in the
// Service API.
const (
	maxAffinity     = 86400
	defaultAffinity = 10800
)

// selected reports whether a proxy with opts serves svc at all.
func selected(svc *corev1.Service, opts *Options) bool {
	if _, headless := svc.Labels[corev1.IsHeadlessService]; headless {
		return false
	}
	if name, named := svc.Labels[labelProxyName]; named != (opts.ProxyName != "") || name != opts.ProxyName {
		return false
	}
	if opts.Filter != nil && !opts.Filter(svc) {
		return false
	}
	spec := &svc.Spec
	return spec.ClusterIP != corev1.ClusterIPNone && spec.Type != corev1.ServiceTypeExternalName
}

// convert returns what a proxy uses of svc, nil if it does not serve it, and what
// was wrong with it.
func convert(svc *corev1.Service, opts *Options) (*Service, field.ErrorList) {
	if !selected(svc, opts) {
		return nil, nil
	}
	r := reader{svc: svc, externalIPs: svc.Spec.ExternalIPs}
	if opts.IgnoreExternalIPs {
		r.externalIPs = nil
	}
	s := &Service{Name: nameOf(svc), Created: svc.CreationTimestamp.UTC()}
	r.readClusterIPs(s)
	if !s.IPv4.ClusterIP.IsValid() && !s.IPv6.ClusterIP.IsValid() {
		return nil, r.problems
	}
	s.Ports = r.ports()
	r.readExternalIPs(s)
	r.readStatus(s)
	r.readSourceRanges(s)
	s.IPv4.unique()
	s.IPv6.unique()
	s.InternalLocal = r.internalLocal()
	s.ExternalLocal = r.externalLocal()
	s.AffinityTimeout = r.affinity()
	s.HealthCheckNodePort = r.healthCheck(s.ExternalLocal)
	if opts.Ext != nil {
		s.Ext = r.ext(opts.Ext(svc))
	}
	return s, r.problems
}

// A reader reads one Service and collects what is wrong with it.
type reader struct {
	svc         *corev1.Service
	externalIPs []string
	problems    field.ErrorList
}

func (r *reader) report(e *field.Error) { r.problems = append(r.problems, e) }

// A fieldAt is where a value stands in a Service. Good values, which are nearly all,
// need no [field.Path].
type fieldAt struct {
	parent string
	index  int    // in a list, -1 if parent is none
	child  string // "" if parent or its item is the value
}

func (p fieldAt) path() *field.Path {
	path := field.NewPath(p.parent)
	if p.index >= 0 {
		path = path.Index(p.index)
	}
	if p.child != "" {
		path = path.Child(p.child)
	}
	return path
}

func (r *reader) loadBalancer() bool { return r.svc.Spec.Type == corev1.ServiceTypeLoadBalancer }

// ports returns the usable ports, sorted. Of two with one key the first is kept.
func (r *reader) ports() []Port {
	ports := make([]Port, 0, len(r.svc.Spec.Ports))
	seen := make(map[portKey]bool, len(r.svc.Spec.Ports))
	for i := range r.svc.Spec.Ports {
		p, ok := r.port(i)
		if !ok {
			continue
		}
		key := portKey{p.Name, p.Protocol}
		if seen[key] {
			r.report(field.Duplicate(fieldAt{specPorts, i, "name"}.path(), p.Name))
			continue
		}
		seen[key] = true
		ports = append(ports, p)
	}
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Protocol), string(b.Protocol)))
	})
	return ports
}

// A portKey tells the ports of one Service apart.
type portKey struct {
	name     string
	protocol corev1.Protocol
}

const specPorts = "spec.ports"

// port returns one port, and whether it can be used.
func (r *reader) port(i int) (Port, bool) {
	p := &r.svc.Spec.Ports[i]
	out := Port{Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)}
	switch out.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		r.report(field.NotSupported(fieldAt{specPorts, i, "protocol"}.path(), p.Protocol,
			[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}))
		return Port{}, false
	}
	if out.Port = r.number(p.Port, fieldAt{specPorts, i, "port"}); out.Port == 0 {
		return Port{}, false
	}
	if p.NodePort != 0 {
		out.NodePort = r.number(p.NodePort, fieldAt{specPorts, i, "nodePort"})
	}
	return out, true
}

// number returns n if it is a port number, and otherwise reports it and returns 0.
func (r *reader) number(n int32, at fieldAt) uint16 {
	if n < 1 || n > 65535 {
		r.report(field.Invalid(at.path(), n, "must be between 1 and 65535"))
		return 0
	}
	return uint16(n)
}

func (r *reader) internalLocal() bool {
	p := r.svc.Spec.InternalTrafficPolicy
	return p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal
}

// externalLocal ignores the policy on a Service that the API gives none: of type
// ClusterIP without external IPs. As in the API, what stands in externalIPs need
// not be usable.
func (r *reader) externalLocal() bool {
	spec := &r.svc.Spec
	clusterIP := spec.Type == corev1.ServiceTypeClusterIP || spec.Type == ""
	external := r.loadBalancer() || spec.Type == corev1.ServiceTypeNodePort || clusterIP && len(r.externalIPs) > 0
	return external && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// affinity returns the affinity timeout, 0 for no affinity. The API server fills
// in the timeout, but objects from elsewhere may have none.
func (r *reader) affinity() time.Duration {
	spec := &r.svc.Spec
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := int32(defaultAffinity)
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		if given := *c.ClientIP.TimeoutSeconds; given >= 1 && given <= maxAffinity {
			seconds = given
		} else {
			r.report(field.Invalid(field.NewPath("spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"), given,
				fmt.Sprintf("must be between 1 and %d; %d is used", maxAffinity, defaultAffinity)))
		}
	}
	return time.Duration(seconds) * time.Second
}

// healthCheck returns the health-check port. A number left over from a time with
// another type or policy is not looked at.
func (r *reader) healthCheck(externalLocal bool) uint16 {
	if !r.loadBalancer() || !externalLocal {
		return 0
	}
	at := fieldAt{"spec.healthCheckNodePort", -1, ""}
	if r.svc.Spec.HealthCheckNodePort == 0 {
		r.report(field.Required(at.path(), "type LoadBalancer with externalTrafficPolicy Local needs a port"))
		return 0
	}
	return r.number(r.svc.Spec.HealthCheckNodePort, at)
}

func (r *reader) ext(v any) any {
	if !ext.Usable(v) {
		r.report(field.Invalid(field.NewPath("ext"), fmt.Sprintf("%T", v), "cannot be compared with =="))
		return nil
	}
	return v
}
