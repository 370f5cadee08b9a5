package allocator_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// Types in short.
const (
	typeClusterIP    = corev1.ServiceTypeClusterIP
	typeNodePort     = corev1.ServiceTypeNodePort
	typeLoadBalancer = corev1.ServiceTypeLoadBalancer
	typeExternalName = corev1.ServiceTypeExternalName
)

func omitIPs(s *corev1.Service)      { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }
func omitFamilies(s *corev1.Service) { s.Spec.IPFamilies = nil }

// TestUpdateFamilies is the table of section 4.4. used is v4/v6 before commit,
// and after it.
func TestUpdateFamilies(t *testing.T) {
	single, dual := service(), service(withPolicy("R"))
	tests := []struct {
		name   string
		from   *corev1.Service // created on a cluster of families fromOn
		fromOn string
		on     string // the cluster when it is changed
		edits  []edit
		want   string // policy/families, or E
		used   string
	}{
		{"policy R, nothing else", single, "46", "46", []edit{withPolicy("R")}, "R/46", "1/1 1/1"},
		{"policy P, nothing else", single, "46", "46", []edit{withPolicy("P")}, "P/46", "1/1 1/1"},
		{"policy nil, families 46", single, "46", "46", []edit{withPolicy(""), withFamilies("46")}, "E", ""},
		{"policy R on a single cluster", single, "4", "4", []edit{withPolicy("R")}, "E", ""},
		{"policy P on a single cluster", single, "4", "4", []edit{withPolicy("P")}, "P/4", "1/0 1/0"},
		{"R/46 to S, the rest the same", dual, "46", "46", []edit{withPolicy("S")}, "S/4", "1/1 1/0"},
		{"R/46 to S, the rest omitted", dual, "46", "46", []edit{withPolicy("S"), omitIPs, omitFamilies}, "S/4", "1/1 1/0"},
		{"R/46 to S, families 4, both IPs kept", dual, "46", "46", []edit{withPolicy("S"), withFamilies("4")}, "S/4", "1/1 1/0"},
		{"R/46, IPs reduced, policy R", dual, "46", "46", []edit{func(s *corev1.Service) { s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1] }}, "E", ""},
		{"R/46, families reduced, policy P", dual, "46", "46", []edit{withPolicy("P"), withFamilies("4")}, "E", ""},
		{"P/4 on a cluster that became dual, the same again", service(withPolicy("P")), "4", "46", nil, "P/4", "1/0 1/0"},
		{"the same with ipFamilies omitted", service(withPolicy("P")), "4", "46", []edit{omitFamilies}, "P/46", "1/1 1/1"},
		{"P/4, add the second family", service(withPolicy("P")), "4", "46", []edit{withFamilies("46")}, "P/46", "1/1 1/1"},
		{"ExternalName to ClusterIP, policy nil", service(ofType(typeExternalName)), "46", "46", []edit{ofType(typeClusterIP)}, "S/4", "1/0 1/0"},
		{"ExternalName to ClusterIP, policy R", service(ofType(typeExternalName)), "46", "46", []edit{ofType(typeClusterIP), withPolicy("R")}, "R/46", "1/1 1/1"},
		{"R/46 to ExternalName", dual, "46", "46", []edit{ofType(typeExternalName)}, "nil/", "1/1 0/0"},
		{"headless to ExternalName", service(headless), "46", "46", []edit{ofType(typeExternalName)}, "nil/", "0/0 0/0"},
		{"dual, the cluster is single now, policy S", dual, "46", "4", []edit{withPolicy("S")}, "S/4", "1/1 1/1"},
		{"ExternalName to headless", service(ofType(typeExternalName)), "46", "46", []edit{ofType(typeClusterIP), headless}, "S/4", "0/0 0/0"},
		{"a family is replaced", single, "46", "46", []edit{withFamilies("6")}, "E", ""},
		{"the secondary address is given", single, "46", "46", []edit{withPolicy("R"), func(s *corev1.Service) {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:10:96::77")
		}}, "R/46", "1/1 1/1"},
		{"the secondary address is changed", dual, "46", "46", []edit{func(s *corev1.Service) { s.Spec.ClusterIPs[1] = "fd00:10:96::77" }}, "E", ""},
	}
	for _, tt := range tests {
		t.Run("4.4 "+tt.name, func(t *testing.T) {
			c := newCluster(t, tt.fromOn)
			stored := c.change(t, nil, tt.from)
			c.config.Families = families(tt.on)
			c.services.Addresses[v6] = c.v6.Source()

			plan, errs := allocator.Plan(stored, with(stored, tt.edits...), c.config)
			if errs != nil {
				if tt.want != "E" {
					t.Fatalf("Plan: %v", errs)
				}
				return
			}
			if got := shortFamilies(plan.Service); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			txn, err := c.services.Apply(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := c.used()
			wantError(t, "Commit", txn.Commit(t.Context()), nil)
			if after, _ := c.used(); before+" "+after != tt.used {
				t.Errorf("used %s, then %s, want %s", before, after, tt.used)
			}
			svc := txn.Service()
			if n := len(svc.Spec.ClusterIPs); svc.Spec.Type != typeExternalName && svc.Spec.ClusterIP != "None" && n != len(svc.Spec.IPFamilies) {
				t.Errorf("%v for families %v", svc.Spec.ClusterIPs, svc.Spec.IPFamilies)
			}
		})
	}
}

func TestNormalizeAddresses(t *testing.T) {
	single := func(ip string) edit { return func(s *corev1.Service) { s.Spec.ClusterIP = ip } }
	plural := func(ips ...string) edit { return func(s *corev1.Service) { s.Spec.ClusterIPs = ips } }
	stored := service(withPolicy("R"), withFamilies("46"), withIPs("10.96.0.17", "fd00:10:96::11"))
	external := with(stored, ofType(typeExternalName))
	tests := []struct {
		name          string
		before, after *corev1.Service
		want          string // clusterIPs, or "E"
	}{
		{"create, singular set, plural empty", nil, service(single("10.96.0.9")), "10.96.0.9"},
		{"create, plural set, singular empty", nil, service(plural("10.96.0.9")), "E"},
		{"update, plural cleared, singular same", stored, with(stored, plural()), "10.96.0.17 fd00:10:96::11"},
		{"update, singular cleared, plural same, to ExternalName", stored, with(external, single("")), ""},
		{"update, singular changed, plural same", stored, with(stored, single("10.96.0.9")), "E"}, // the secondary is lost, and the primary immutable
		{"update from ExternalName, singular set, plural empty", service(ofType(typeExternalName)), service(single("10.96.0.9")), "10.96.0.9"},
		{"update, both omitted", stored, with(stored, omitIPs), "10.96.0.17 fd00:10:96::11"},
		{"update, the same address written otherwise", stored, with(stored, plural("10.96.0.17", "FD00:10:96:0::11")), "10.96.0.17 FD00:10:96:0::11"},
		{"update, an address on an ExternalName", service(ofType(typeExternalName)), service(ofType(typeExternalName), single("10.96.0.9")), "E"},
	}
	for _, tt := range tests {
		t.Run("4.2 "+tt.name, func(t *testing.T) {
			got := "E"
			plan, errs := allocator.Plan(tt.before, tt.after, allocator.ClusterConfig{Families: families("46")})
			if errs == nil {
				got = strings.Join(plan.Service.Spec.ClusterIPs, " ")
			}
			if got != tt.want {
				t.Errorf("got %q (%v), want %q", got, errs, tt.want)
			}
		})
	}
}

func TestStoredObjectsAreDefaulted(t *testing.T) {
	old := func(edits ...edit) *corev1.Service { // as stored before families existed
		return service(append([]edit{func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.17" }}, edits...)...)
	}
	tests := []struct {
		name, want string
		svc        *corev1.Service
	}{
		{"with an address", "S/4", old()},
		{"headless with selector", "S/4", old(headless)},
		{"headless without selector", "R/46", old(headless, noSelector)},
		{"with two addresses", "R/46", old(withIPs("10.96.0.17", "fd00:10:96::11"))},
	}
	for _, tt := range tests {
		t.Run("4.2 "+tt.name, func(t *testing.T) {
			plan, errs := allocator.Plan(tt.svc, tt.svc, allocator.ClusterConfig{Families: families("46")})
			if errs != nil {
				t.Fatal(errs)
			}
			if got := shortFamilies(plan.Service); got != tt.want || len(plan.Claims)+len(plan.Releases) != 0 {
				t.Errorf("got %s with %d claims and %d releases, want %s and none", got, len(plan.Claims), len(plan.Releases), tt.want)
			}
		})
	}
}

// TestTypeTransitions is the table of section 4.5. Each cell is what is in use.
func TestTypeTransitions(t *testing.T) {
	clusterIP := service(withPorts("http:80/TCP"))
	nodePort := with(clusterIP, ofType(typeNodePort))
	balancer := with(clusterIP, ofType(typeLoadBalancer))
	local := with(balancer, localPolicy)
	external := with(clusterIP, ofType(typeExternalName))
	none := with(clusterIP, headless)
	tests := []struct {
		name     string
		from, to *corev1.Service
		want     string // state after, "" for nothing, "E" for an error
	}{
		{"ClusterIP to NodePort", clusterIP, nodePort, "10.96.0.17=ns1/web 30086=ns1/web"},
		{"ClusterIP to LB", clusterIP, balancer, "10.96.0.17=ns1/web 30086=ns1/web"},
		{"ClusterIP to LB, Local", clusterIP, local, "10.96.0.17=ns1/web 30086=ns1/web 30087=ns1/web"},
		{"NodePort to LB", nodePort, balancer, "10.96.0.17=ns1/web 30086=ns1/web"},
		{"NodePort to LB, Local", nodePort, local, "10.96.0.17=ns1/web 30086=ns1/web 30087=ns1/web"},
		{"LB, Local to NodePort", local, nodePort, "10.96.0.17=ns1/web 30086=ns1/web"},
		{"LB, Local to LB", local, balancer, "10.96.0.17=ns1/web 30086=ns1/web"},
		{"NodePort to ClusterIP", nodePort, clusterIP, "10.96.0.17=ns1/web"},
		{"LB, Local to ClusterIP", local, clusterIP, "10.96.0.17=ns1/web"},
		{"LB, Local to ExternalName", local, external, ""},
		{"ExternalName to LB, Local", external, local, "10.96.0.17=ns1/web 30086=ns1/web 30087=ns1/web"},
		{"ExternalName to headless", external, none, ""},
		{"headless to ExternalName", none, external, ""},
		{"headless to NodePort", none, with(none, ofType(typeNodePort)), "E"},
		{"headless to LB", none, with(none, ofType(typeLoadBalancer)), "E"},
		{"ClusterIP to headless", clusterIP, none, "E"},
		{"LB, auto to not auto, number listed", balancer, with(balancer, autoNodePorts(false), withPorts("http:80/TCP=30086")), "10.96.0.17=ns1/web 30086=ns1/web"},
		{"LB, auto to not auto, number omitted", balancer, with(balancer, autoNodePorts(false)), "10.96.0.17=ns1/web"},
	}
	for _, tt := range tests {
		t.Run("4.5 "+tt.name, func(t *testing.T) {
			c := newCluster(t, "4")
			stored := c.change(t, nil, tt.from)
			plan, errs := allocator.Plan(stored, tt.to, c.config)
			if errs != nil {
				if tt.want != "E" {
					t.Fatalf("Plan: %v", errs)
				}
				return
			}
			before := c.state()
			txn, err := c.services.Apply(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			for held := range strings.FieldsSeq(before) {
				if !strings.Contains(c.state(), held) {
					t.Errorf("%s was released before the commit", held)
				}
			}
			wantError(t, "Commit", txn.Commit(t.Context()), nil)
			if got := c.state(); got != tt.want {
				t.Errorf("in use: %s, want %s", got, tt.want)
			}
		})
	}
}

func TestFieldsAreCleared(t *testing.T) {
	class := "example.com/lb"
	balancer := service(ofType(typeLoadBalancer), localPolicy, autoNodePorts(true), withPorts("80/TCP"), func(s *corev1.Service) {
		s.Spec.LoadBalancerClass = &class
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	})
	c := newCluster(t, "46")
	stored := c.change(t, nil, balancer)
	t.Run("4.2 what the user left alone is cleared with the type", func(t *testing.T) {
		got := c.plan(t, stored, with(stored, ofType(typeExternalName))).Service
		s := got.Spec
		if s.ClusterIP != "" || s.ClusterIPs != nil || s.IPFamilies != nil || s.IPFamilyPolicy != nil ||
			s.Ports[0].NodePort != 0 || s.HealthCheckNodePort != 0 || s.AllocateLoadBalancerNodePorts != nil ||
			s.LoadBalancerClass != nil || s.ExternalTrafficPolicy != "" || got.Status.LoadBalancer.Ingress != nil {
			t.Errorf("left: %+v, %+v", s, got.Status)
		}
	})
	t.Run("4.2 what the user changed stays for validation", func(t *testing.T) {
		other := "example.com/other"
		got := c.plan(t, stored, with(stored, ofType(typeClusterIP), autoNodePorts(false), func(s *corev1.Service) {
			s.Spec.LoadBalancerClass, s.Spec.ExternalTrafficPolicy = &other, corev1.ServiceExternalTrafficPolicyCluster
		})).Service.Spec
		if got.LoadBalancerClass == nil || got.AllocateLoadBalancerNodePorts == nil || got.ExternalTrafficPolicy == "" {
			t.Errorf("cleared: %+v", got)
		}
	})
	t.Run("4.2 external IPs keep the external traffic policy", func(t *testing.T) {
		got := c.plan(t, stored, with(stored, ofType(typeClusterIP), func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{"192.0.2.7"}
		})).Service.Spec
		if got.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			t.Errorf("externalTrafficPolicy %q", got.ExternalTrafficPolicy)
		}
	})
	t.Run("4.2 a new node port on a type without is an error", func(t *testing.T) {
		_, errs := allocator.Plan(stored, with(stored, ofType(typeClusterIP), withPorts("80/TCP=31000")), c.config)
		if len(errs) != 1 || errs[0].Field != "spec.ports[0].nodePort" {
			t.Errorf("got %v", errs)
		}
	})
}

func TestPlanLeavesItsInputsAlone(t *testing.T) {
	t.Run("4.6 objects are copied", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(withPolicy("R"), ofType(typeNodePort), withPorts("53/TCP", "53/UDP")))
		after := with(stored, withPolicy("S"), withPorts("53/TCP", "53/UDP"))
		before, sent := stored.DeepCopy(), after.DeepCopy()
		plan := c.plan(t, stored, after)
		plan.Service.Spec.Ports[0].NodePort = 1
		if !slices.Equal(nodePorts(before), nodePorts(stored)) || !slices.Equal(nodePorts(sent), nodePorts(after)) ||
			!slices.Equal(sent.Spec.ClusterIPs, after.Spec.ClusterIPs) {
			t.Error("an input was changed")
		}
	})
	t.Run("4.6 a plan is deterministic", func(t *testing.T) {
		c := newCluster(t, "64")
		svc := service(withPolicy("R"), ofType(typeLoadBalancer), localPolicy, withPorts("80/TCP", "443/TCP=30443", "53/UDP", "53/TCP"), healthPort(31000))
		want := []string{"spec.ports[1].nodePort", "spec.healthCheckNodePort", "spec.clusterIPs[0]", "spec.clusterIPs[1]", "spec.ports[0].nodePort", "spec.ports[2].nodePort"}
		for range 20 {
			if got := paths(c.plan(t, nil, svc)); !slices.Equal(got, want) {
				t.Fatalf("claims %v, want %v", got, want)
			}
		}
	})
}
