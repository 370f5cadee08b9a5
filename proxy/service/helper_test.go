package service_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/proxy/service"
)

// web is the name of the Service in most tests.
var web = types.NamespacedName{Namespace: "ns", Name: "web"}

// A change edits the object that object makes.
type change func(*corev1.Service)

// object returns an IPv4 Service ns/web with ClusterIP 10.96.0.50 and port
// http 80/TCP, edited by changes.
func object(changes ...change) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  "10.96.0.50",
			ClusterIPs: []string{"10.96.0.50"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, c := range changes {
		c(svc)
	}
	return svc
}

func dualStack(svc *corev1.Service) {
	svc.Spec.ClusterIPs = []string{"10.96.0.50", "fd00:96::50"}
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

func named(name string) change { return func(svc *corev1.Service) { svc.Name = name } }

func label(key, value string) change {
	return func(svc *corev1.Service) { svc.Labels = map[string]string{key: value} }
}

func ofType(t corev1.ServiceType) change { return func(svc *corev1.Service) { svc.Spec.Type = t } }

func clusterIP(ip string) change {
	return func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip, []string{ip} }
}

func ports(p ...corev1.ServicePort) change { return func(svc *corev1.Service) { svc.Spec.Ports = p } }

func nodePort(n int32) change { return func(svc *corev1.Service) { svc.Spec.Ports[0].NodePort = n } }

func externalIPs(ips ...string) change {
	return func(svc *corev1.Service) { svc.Spec.ExternalIPs = ips }
}

func externalLocal(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func healthCheck(n int32) change {
	return func(svc *corev1.Service) { svc.Spec.HealthCheckNodePort = n }
}

// ingress makes a Service of type LoadBalancer with a status.
func ingress(in ...corev1.LoadBalancerIngress) change {
	return func(svc *corev1.Service) {
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		svc.Status.LoadBalancer.Ingress = in
	}
}

func ip(s string) corev1.LoadBalancerIngress { return corev1.LoadBalancerIngress{IP: s} }

func ipMode(s string, m corev1.LoadBalancerIPMode) corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{IP: s, IPMode: &m}
}

func sourceRanges(r ...string) change {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = r }
}

// read returns what a new tracker makes of an object, and the API paths of what
// was wrong with it.
func read(t *testing.T, opts service.Options, obj *corev1.Service) (*service.Service, []string) {
	t.Helper()
	tracker := service.NewServiceChangeTracker(opts)
	dirty, problems := tracker.Set(obj)
	name := types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}
	s := tracker.Pending().Services[name]
	if dirty != (s != nil) {
		t.Errorf("Set = %v, but Pending has %v", dirty, s)
	}
	return s, paths(problems)
}

func paths(problems field.ErrorList) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Field)
	}
	return out
}

// mustRead is read of an object that is proxied and has no problems.
func mustRead(t *testing.T, changes ...change) *service.Service {
	t.Helper()
	s, problems := read(t, service.Options{}, object(changes...))
	if s == nil || len(problems) > 0 {
		t.Fatalf("Service = %v, problems %q", s, problems)
	}
	return s
}

// text turns values into strings, nil into an empty list.
func text[T interface{ String() string }](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func checkList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

func checkDiff(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
