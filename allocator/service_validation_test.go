package allocator_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// refusedFields returns the fields of the errors that Plan gives.
func refusedFields(before, after *corev1.Service, clusterFamilies string) []string {
	_, errs := allocator.Plan(before, after, allocator.ClusterConfig{Families: families(clusterFamilies)})
	var out []string
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return out
}

func TestPlanRefusesWhatTheAPIDoes(t *testing.T) {
	garbage := func(s *corev1.Service) {
		p := corev1.IPFamilyPolicy("garbage")
		s.Spec.IPFamilyPolicy = &p
	}
	port := func(change func(*corev1.ServicePort)) edit {
		return func(s *corev1.Service) { change(&s.Spec.Ports[0]) }
	}
	tests := []struct {
		name string
		svc  *corev1.Service
		want string // the fields of the errors
	}{
		{"unknown ipFamilyPolicy", service(garbage), "spec.ipFamilyPolicy"},
		{"unknown ipFamilyPolicy, headless", service(garbage, headless), "spec.ipFamilyPolicy"},
		{"unknown ipFamilyPolicy, headless without selector", service(garbage, headless, noSelector), "spec.ipFamilyPolicy"},
		{"ExternalName with families", service(ofType(typeExternalName), withFamilies("4")), "spec.ipFamilies"},
		{"ExternalName with a policy", service(ofType(typeExternalName), withPolicy("S")), "spec.ipFamilyPolicy"},
		{
			"ExternalName with all of it",
			service(ofType(typeExternalName), withPolicy("S"), withFamilies("4"), withIPs("10.96.0.9")),
			"spec.clusterIPs spec.ipFamilies spec.ipFamilyPolicy",
		},
		{"duplicate port and protocol", service(withPorts("a:80/TCP", "b:80/TCP")), "spec.ports[1]"},
		{"duplicate port and protocol of a NodePort", service(ofType(typeNodePort), withPorts("a:80/TCP", "b:80/TCP")), "spec.ports[1]"},
		{"duplicate port and protocol, one as the default", service(withPorts("a:80/TCP", "b:80/")), "spec.ports[1]"},
		{"duplicate port and protocol, headless", service(headless, withPorts("a:80/TCP", "b:80/TCP")), "spec.ports[1]"},
		{"duplicate port and protocol, ExternalName", service(ofType(typeExternalName), withPorts("a:80/TCP", "b:80/TCP")), "spec.ports[1]"},
		{"the same port of two protocols", service(withPorts("a:80/TCP", "b:80/UDP")), ""},
		{"no ports", service(withPorts()), "spec.ports"},
		{"no ports, NodePort", service(withPorts(), ofType(typeNodePort)), "spec.ports"},
		{"no ports, headless", service(withPorts(), headless), ""},
		{"no ports, ExternalName", service(withPorts(), ofType(typeExternalName)), ""},
		{"duplicate name", service(withPorts("a:80/TCP", "a:81/TCP")), "spec.ports[1].name"},
		{"two ports, one without name", service(withPorts("a:80/TCP", ":81/TCP")), "spec.ports[1].name"},
		{"one port without name", service(withPorts(":80/TCP")), ""},
		{"port 0", service(port(func(sp *corev1.ServicePort) { sp.Port = 0 })), "spec.ports[0].port"},
		{"port 65536", service(port(func(sp *corev1.ServicePort) { sp.Port = 65536 })), "spec.ports[0].port"},
		{"unknown protocol", service(withPorts("80/tcp")), "spec.ports[0].protocol"},
		{"unknown type", service(ofType("garbage")), "spec.type"},
		{"no type is the default", service(ofType("")), ""},
		{"no type, and a node port", service(ofType(""), withPorts("80/TCP=30080")), "spec.ports[0].nodePort"},
		{"nodePort on ClusterIP", service(withPorts("80/TCP=30080")), "spec.ports[0].nodePort"},
		{"nodePort on ExternalName", service(ofType(typeExternalName), withPorts("80/TCP=30080")), ""},
		{"nodePort twice on ExternalName", service(ofType(typeExternalName), withPorts("a:80/TCP=30080", "b:81/TCP=30080")), "spec.ports[1].nodePort"},
	}
	stored := service(withFamilies("4"), withPolicy("S"), withIPs("10.96.0.9"))
	for _, tt := range tests {
		t.Run("fault F29 "+tt.name, func(t *testing.T) {
			if got := strings.Join(refusedFields(nil, tt.svc, "46"), " "); got != tt.want {
				t.Errorf("on create, errors at %q, want %q", got, tt.want)
			}
			if tt.want != "" && !strings.HasPrefix(tt.want, "spec.ports") {
				return // on update these may be as before, and are cleared with the type
			}
			before := stored
			if tt.svc.Spec.ClusterIP == "None" {
				before = with(stored, headless)
			}
			if got := strings.Join(refusedFields(before, tt.svc, "46"), " "); got != tt.want {
				t.Errorf("on update, errors at %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("fault F29 a deletion refuses nothing", func(t *testing.T) {
		if got := refusedFields(service(garbage, withPorts()), nil, "46"); got != nil {
			t.Errorf("errors at %q", got)
		}
	})
	t.Run("fault F29 a nodePort on ExternalName is nobody's", func(t *testing.T) {
		c := newCluster(t, "46")
		external := with(c.change(t, nil, service(ofType(typeExternalName), withPorts("80/TCP=30080"))), withUID("1"))
		if got := c.state(); got != "" {
			t.Errorf("in use: %s", got)
		}
		findings, _ := allocator.PortRepair{Services: []*corev1.Service{external}, Pool: c.ports}.Findings()
		if len(findings) > 0 {
			t.Errorf("repair finds %v", findings)
		}
		c.change(t, external, with(external, ofType(typeNodePort)))
		if got, want := c.state(), "10.96.0.17=ns1/web 30080=ns1/web"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
	})
}

func TestHeadlessFamilies(t *testing.T) {
	from := func(short, fams string, edits ...edit) *corev1.Service {
		return service(append([]edit{headless, withPolicy(short), withFamilies(fams)}, edits...)...)
	}
	tests := []struct {
		name          string
		before, after *corev1.Service
		on            string
		want          string // "E" for an error
	}{
		{"another family", from("S", "4"), from("S", "6"), "46", "S/6"},
		{"the other order", from("P", "46"), from("P", "64"), "46", "P/64"},
		{"another family, no selector", from("S", "4", noSelector), from("S", "6", noSelector), "4", "S/6"},
		{"the other order, no selector, one family in the cluster", from("R", "46", noSelector), from("R", "64", noSelector), "4", "R/64"},
		{"another one first, and both", from("S", "4"), from("P", "64"), "46", "P/64"},
		{"both, then the second alone", from("P", "46"), from("S", "6"), "46", "S/6"},
		{"a family that the cluster has not", from("S", "4"), from("S", "6"), "4", "E"},
		{"fewer without SingleStack", from("P", "46"), from("P", "6"), "46", "E"},
	}
	for _, tt := range tests {
		t.Run("fault F22 "+tt.name, func(t *testing.T) {
			plan, errs := allocator.Plan(tt.before, tt.after, allocator.ClusterConfig{Families: families(tt.on)})
			got := "E"
			if errs == nil {
				got = shortFamilies(plan.Service)
				if len(plan.Claims)+len(plan.Releases) > 0 {
					t.Errorf("%d claims, %d releases, want none", len(plan.Claims), len(plan.Releases))
				}
			}
			if got != tt.want {
				t.Errorf("got %s (%v), want %s", got, errs, tt.want)
			}
		})
	}
}

func TestUpstreamCarryOver(t *testing.T) {
	one := service(ofType(typeNodePort), withFamilies("4"), withPolicy("S"), withIPs("10.96.0.9"), withPorts("a:80/TCP=30003"))
	twins := with(one, withPorts("a:53/TCP=30003", "b:53/UDP=30003"))
	tests := []struct {
		name     string
		before   *corev1.Service
		ports    []string
		upstream []int32 // 0 for one that is drawn
		ours     []int32
	}{
		{"another entry asks for the number, other protocol", one, []string{"a:80/TCP", "b:81/UDP=30003"}, []int32{0, 30003}, []int32{30003, 30003}},
		{"another entry asks for the number, in front", one, []string{"b:81/UDP=30003", "a:80/TCP"}, []int32{30003, 0}, []int32{30003, 30003}},
		{"another entry asks for the number, same protocol", one, []string{"a:80/TCP", "b:81/TCP=30003"}, []int32{0, 30003}, []int32{0, 30003}},
		{"nobody asks for the number", one, []string{"a:8080/TCP", "b:81/UDP"}, []int32{30003, 0}, []int32{30003, 0}},
		{"another name", one, []string{"b:80/TCP"}, []int32{0}, []int32{30003}},
		{"twins keep the number that they share", twins, []string{"a:53/TCP", "b:53/UDP"}, []int32{30003, 30003}, []int32{30003, 30003}},
		{"one of the twins asks for it", twins, []string{"a:53/TCP=30003", "b:53/UDP"}, []int32{30003, 0}, []int32{30003, 30003}},
	}
	for _, tt := range tests {
		for _, upstream := range []bool{true, false} {
			name, want := "fault F24 as an API server: "+tt.name, tt.upstream
			if !upstream {
				name, want = "fault F24 default: "+tt.name, tt.ours
			}
			t.Run(name, func(t *testing.T) {
				config := allocator.ClusterConfig{Families: families("46"), UpstreamNodePorts: upstream}
				plan, errs := allocator.Plan(tt.before, with(tt.before, withPorts(tt.ports...)), config)
				if errs != nil {
					t.Fatal(errs)
				}
				if got := nodePorts(plan.Service); !slices.Equal(got, want) {
					t.Errorf("node ports %v, want %v", got, want)
				}
			})
		}
	}
}
