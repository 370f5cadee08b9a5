package storage

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom creates, updates and deletes Services at random. The hooks compare.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for _, families := range [][]api.IPFamily{
		{api.IPv4Protocol}, {api.IPv4Protocol, api.IPv6Protocol}, {api.IPv6Protocol, api.IPv4Protocol},
	} {
		storage, _, done := newStorage(t, families)
		w := &vipkitStore{t: t, g: g, storage: storage, live: map[string]*api.Service{}}
		for range shadow.Rounds(800) {
			w.step()
		}
		done()
	}
}

type vipkitStore struct {
	t       *testing.T
	g       *shadow.Generator
	storage *wrapperRESTForTests
	live    map[string]*api.Service
}

func (w *vipkitStore) step() {
	ctx := genericapirequest.WithRequestInfo(genericapirequest.NewDefaultContext(),
		&genericapirequest.RequestInfo{APIVersion: "v1", Resource: "services"})
	name := fmt.Sprintf("s%d", w.g.Intn(12))
	old := w.live[name]
	switch {
	case old == nil:
		w.create(ctx, name)
	case w.g.Percent(20):
		if _, _, err := w.storage.Delete(ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		delete(w.live, name)
	default:
		w.update(ctx, old.DeepCopy())
	}
}

func (w *vipkitStore) dryRun() []string {
	if w.g.Percent(20) {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// create and update may be refused, which the hooks compare.
func (w *vipkitStore) create(ctx context.Context, name string) {
	s := svctest.MakeService(name)
	w.change(s)
	dry := w.dryRun()
	out, err := w.storage.Create(ctx, s, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dry})
	if err == nil && dry == nil {
		w.live[name] = out.(*api.Service)
	}
}

func (w *vipkitStore) update(ctx context.Context, s *api.Service) {
	w.change(s)
	dry := w.dryRun()
	out, _, err := w.storage.Update(ctx, s.Name, rest.DefaultUpdatedObjectInfo(s), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: dry})
	if err == nil && dry == nil {
		w.live[s.Name] = out.(*api.Service)
	}
}

func (w *vipkitStore) change(s *api.Service) {
	if w.g.Percent(60) {
		w.changeType(s)
	}
	if s.Spec.Type == api.ServiceTypeExternalName {
		return
	}
	if w.g.Percent(40) {
		w.changeFamilies(s)
	}
	if w.g.Percent(50) {
		w.changePorts(s)
	}
}

func (w *vipkitStore) changeType(s *api.Service) {
	spec := &s.Spec
	spec.Type = shadow.Pick(w.g, api.ServiceTypeClusterIP, api.ServiceTypeNodePort, api.ServiceTypeLoadBalancer, api.ServiceTypeExternalName)
	spec.ExternalName, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy = "", nil, ""
	spec.InternalTrafficPolicy = new(api.ServiceInternalTrafficPolicyCluster)
	switch spec.Type {
	case api.ServiceTypeExternalName:
		spec.ExternalName, spec.InternalTrafficPolicy = "example.com", nil
		spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
		spec.HealthCheckNodePort = 0
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	case api.ServiceTypeLoadBalancer:
		spec.AllocateLoadBalancerNodePorts = new(w.g.Percent(70))
		fallthrough
	case api.ServiceTypeNodePort:
		spec.ExternalTrafficPolicy = shadow.Pick(w.g, api.ServiceExternalTrafficPolicyCluster, api.ServiceExternalTrafficPolicyLocal)
	}
}

func (w *vipkitStore) changeFamilies(s *api.Service) {
	spec := &s.Spec
	spec.IPFamilyPolicy = shadow.Pick(w.g, nil, new(api.IPFamilyPolicySingleStack), new(api.IPFamilyPolicyPreferDualStack),
		new(api.IPFamilyPolicyRequireDualStack))
	spec.IPFamilies = shadow.Pick(w.g, nil, []api.IPFamily{api.IPv4Protocol}, []api.IPFamily{api.IPv6Protocol},
		[]api.IPFamily{api.IPv4Protocol, api.IPv6Protocol}, []api.IPFamily{api.IPv6Protocol, api.IPv4Protocol})
	v4, v6 := fmt.Sprintf("10.0.0.%d", w.g.Intn(8)), fmt.Sprintf("2000::%d", w.g.Intn(8))
	spec.ClusterIPs = shadow.Pick(w.g, spec.ClusterIPs, nil, nil, []string{api.ClusterIPNone}, []string{v4}, []string{v6}, []string{v4, v6})
	spec.ClusterIP = ""
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
}

func (w *vipkitStore) changePorts(s *api.Service) {
	spec := &s.Spec
	spec.Ports = []api.ServicePort{svctest.MakeServicePort("a", 80, intstr.FromInt32(80), api.ProtocolTCP)}
	if w.g.Percent(50) {
		spec.Ports = append(spec.Ports, svctest.MakeServicePort("b", 80+w.g.Intn(2), intstr.FromInt32(80), api.ProtocolUDP))
	}
	external := spec.Type == api.ServiceTypeNodePort || spec.Type == api.ServiceTypeLoadBalancer
	for i := range spec.Ports {
		if external && w.g.Percent(25) || w.g.Percent(3) {
			spec.Ports[i].NodePort = int32(29999 + w.g.Intn(12))
		}
	}
	if w.g.Percent(30) {
		spec.HealthCheckNodePort = shadow.Pick(w.g, 0, int32(29999+w.g.Intn(12)))
	}
}
