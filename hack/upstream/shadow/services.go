package shadow

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/utils/net"

	"github.com/vipkit/vipkit/proxy/service"
)

// areaServices is the area of what the tracker of Services and its helpers answer.
const areaServices = "services"

// A ServicePort is what upstream made of a port of a Service. Lists are in its order.
type ServicePort struct {
	Name, Protocol                                                 string
	ClusterIP                                                      string
	Port, NodePort, HealthCheckNodePort, AffinitySeconds           int
	ExternalIPs, LoadBalancerIPs, SourceRanges                     []string
	ExternalLocal, InternalLocal, External, UsesCluster, UsesLocal bool
}

// A ServiceChange is what upstream says about a Service that changed.
type ServiceChange struct{ Previous, Current []ServicePort }

// Services is vipkit's tracker beside one of upstream. It is safe for concurrent use.
type Services struct {
	family   corev1.IPFamily
	mu       sync.Mutex
	tracker  *service.ServiceChangeTracker
	objects  map[types.NamespacedName]*corev1.Service
	services map[types.NamespacedName]*service.Service
}

// NewServices returns an empty one for the family that the tracker of upstream is for.
func NewServices(family corev1.IPFamily) *Services {
	return &Services{
		family:   family,
		tracker:  service.NewServiceChangeTracker(service.Options{}),
		objects:  map[types.NamespacedName]*corev1.Service{},
		services: map[types.NamespacedName]*service.Service{},
	}
}

// Update gives vipkit what upstream's tracker is given. Of a Service that was not seen before
// the previous version counts as in place, as upstream takes it.
func (s *Services) Update(previous, current *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current == nil {
		name := types.NamespacedName{Namespace: previous.Namespace, Name: previous.Name}
		s.tracker.Delete(name)
		s.objects[name] = nil
		return
	}
	name := types.NamespacedName{Namespace: current.Namespace, Name: current.Name}
	if _, ok := s.objects[name]; !ok && previous != nil {
		s.tracker.Set(previous)
		s.tracker.Take()
	}
	s.tracker.Set(current)
	s.objects[name] = current.DeepCopy()
}

// Services returns all Services that were compared.
func (s *Services) Services() map[types.NamespacedName]*service.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.services)
}

// Checkout compares the Services that changed, and acknowledges them.
func (s *Services) Checkout(upstream map[types.NamespacedName]ServiceChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.tracker.Take()
	for name, change := range upstream {
		svc, dirty := pending.Services[name]
		s.compare(name, change, svc, dirty)
	}
	for name, svc := range pending.Services {
		_, ok := upstream[name]
		old, now := portTexts(ServicePorts(s.services[name], s.family)), portTexts(ServicePorts(svc, s.family))
		switch {
		case ok:
		case old == now:
			Differ(areaServices, "other-family-changed", "%s", name)
		default:
			Differ(areaServices, Unexplained, "%s changed for vipkit only: %s, then %s", name, old, now)
		}
		s.services[name] = svc
	}
	current.note(func(c *latest) { c.services = s })
}

func (s *Services) compare(name types.NamespacedName, change ServiceChange, svc *service.Service, dirty bool) {
	theirs := portTexts(change.Current)
	if !dirty {
		if portTexts(change.Previous) == theirs {
			Differ(areaServices, "no-used-field-changed", "%s", name)
		} else {
			Differ(areaServices, differenceOf(s.objects[name]), "%s is no change for vipkit, for upstream now %s: %s", name, theirs, show(s.objects[name]))
		}
		return
	}
	ours := portTexts(ServicePorts(svc, s.family))
	if ours == theirs {
		Agree(areaServices)
		return
	}
	Differ(areaServices, differenceOf(s.objects[name]), "%s: upstream %s, vipkit %s: %s", name, theirs, ours, show(s.objects[name]))
}

// CompareConversion compares what was made of one object.
func CompareConversion(obj *corev1.Service, family corev1.IPFamily, upstream []ServicePort) {
	ours, theirs := portTexts(ServicePorts(convert(obj), family)), portTexts(upstream)
	if ours == theirs {
		Agree(areaServices)
		return
	}
	Differ(areaServices, differenceOf(obj), "upstream %s, vipkit %s: %s", theirs, ours, show(obj))
}

// CompareSkip compares whether a proxy has nothing to do with the object.
func CompareSkip(obj *corev1.Service, upstream bool) {
	if ours := convert(obj) == nil; ours != upstream {
		Differ(areaServices, differenceOf(obj), "upstream skips %v, vipkit %v: %s", upstream, ours, show(obj))
		return
	}
	Agree(areaServices)
}

// CompareClusterIP compares the ClusterIP of the object in one family.
func CompareClusterIP(obj *corev1.Service, family corev1.IPFamily, upstream string) {
	if ip := utilnet.ParseIPSloppy(upstream); ip != nil {
		upstream = ip.String()
	} else if upstream == corev1.ClusterIPNone {
		upstream = ""
	}
	svc, ours := convert(obj), ""
	if svc != nil && svc.Addresses(family).ClusterIP.IsValid() {
		ours = svc.Addresses(family).ClusterIP.String()
	}
	if ours == upstream {
		Agree(areaServices)
		return
	}
	Differ(areaServices, differenceOf(obj), "%s ClusterIP: upstream %q, vipkit %q: %s", family, upstream, ours, show(obj))
}

func convert(obj *corev1.Service) *service.Service {
	t := service.NewServiceChangeTracker(service.Options{})
	t.Set(obj)
	return t.Take().Services[types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}]
}

// ServicePorts returns the ports of a Service as upstream would.
func ServicePorts(svc *service.Service, family corev1.IPFamily) []ServicePort {
	if svc == nil || !svc.Addresses(family).ClusterIP.IsValid() {
		return nil
	}
	a := svc.Addresses(family)
	var out []ServicePort
	for _, p := range svc.Ports {
		policy := svc.Policy(p, family)
		out = append(out, ServicePort{
			Name: p.Name, Protocol: string(p.Protocol), ClusterIP: a.ClusterIP.String(),
			Port: int(p.Port), NodePort: int(p.NodePort),
			HealthCheckNodePort: int(svc.HealthCheckNodePort), AffinitySeconds: int(svc.AffinityTimeout / time.Second),
			ExternalIPs: Texts(a.ExternalIPs), LoadBalancerIPs: Texts(a.LoadBalancerIPs), SourceRanges: ranges(a.SourceRanges),
			ExternalLocal: svc.ExternalLocal, InternalLocal: svc.InternalLocal,
			External: policy.External, UsesCluster: policy.UsesCluster(), UsesLocal: policy.UsesLocal(),
		})
	}
	return out
}

// ranges leaves ranges out if one of them has all addresses, as upstream does.
func ranges(l []netip.Prefix) []string {
	if slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return nil
	}
	return Texts(l)
}

// Texts returns the values as text, in their order.
func Texts[T fmt.Stringer](l []T) []string {
	var out []string
	for _, v := range l {
		out = append(out, v.String())
	}
	return out
}

func portTexts(l []ServicePort) string {
	var out []string
	for _, p := range l {
		out = append(out, fmt.Sprintf("%+v", p))
	}
	slices.Sort(out)
	return join(out)
}

func show(obj *corev1.Service) string {
	if obj == nil {
		return "gone"
	}
	text, err := json.Marshal(struct {
		Labels map[string]string
		Spec   corev1.ServiceSpec
		Status corev1.LoadBalancerStatus
	}{obj.Labels, obj.Spec, obj.Status.LoadBalancer})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// differenceOf returns the difference that the object is an example of.
func differenceOf(obj *corev1.Service) string {
	switch {
	case obj == nil:
		return Unexplained
	case obj.Spec.Type != corev1.ServiceTypeLoadBalancer && (len(obj.Status.LoadBalancer.Ingress) > 0 || len(obj.Spec.LoadBalancerSourceRanges) > 0):
		return "load-balancer-fields-of-another-type"
	case repeats(obj):
		return "address-twice-in-a-list"
	case len(obj.Labels["service.kubernetes.io/service-proxy-name"])+len(obj.Labels[corev1.IsHeadlessService]) > 0,
		hasLabel(obj, "service.kubernetes.io/service-proxy-name"), hasLabel(obj, corev1.IsHeadlessService):
		return "labels-select"
	case slices.ContainsFunc(obj.Spec.Ports, refused):
		return "port-number-out-of-range"
	case slices.ContainsFunc(externalAddresses(obj), special):
		return "special-address"
	}
	return Unexplained
}

func externalAddresses(obj *corev1.Service) []string {
	out := slices.Clone(obj.Spec.ExternalIPs)
	for _, i := range obj.Status.LoadBalancer.Ingress {
		out = append(out, i.IP)
	}
	return out
}

// special reports whether nobody may be reached by the address from elsewhere.
func special(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && (a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast())
}

func hasLabel(obj *corev1.Service, label string) bool {
	_, ok := obj.Labels[label]
	return ok
}

func refused(p corev1.ServicePort) bool {
	return p.Port < 1 || p.Port > 65535 || p.NodePort < 0 || p.NodePort > 65535
}

func repeats(obj *corev1.Service) bool {
	var ingress, sources []string
	for _, i := range obj.Status.LoadBalancer.Ingress {
		ingress = append(ingress, i.IP)
	}
	for _, r := range obj.Spec.LoadBalancerSourceRanges {
		r = strings.TrimSpace(r)
		if p, err := netip.ParsePrefix(r); err == nil {
			r = p.Masked().String()
		}
		sources = append(sources, r)
	}
	return hasTwice(obj.Spec.ExternalIPs) || hasTwice(ingress) || hasTwice(sources)
}

func hasTwice(l []string) bool {
	seen := map[string]bool{}
	for _, s := range l {
		if seen[s] {
			return true
		}
		seen[s] = true
	}
	return false
}
