package allocator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// A portCase is a change of the ports of a Service.
type portCase struct {
	name   string
	before *corev1.Service // created first; nil for create
	after  []edit          // of before, or of a NodePort Service
	want   []int32         // node ports; nil if there must be an error
	path   string          // of the error
	used   uint64          // ports in use before commit
	left   uint64          // and after it
}

func checkPorts(t *testing.T, config allocator.ClusterConfig, cases []portCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, "4")
			config.Families = c.config.Families
			c.config = config
			after := service(append([]edit{ofType(typeNodePort)}, tt.after...)...)
			var stored *corev1.Service
			if tt.before != nil {
				stored = c.change(t, nil, tt.before)
				after = with(stored, tt.after...)
			}
			plan, errs := allocator.Plan(stored, after, c.config)
			if tt.want == nil {
				if len(errs) != 1 || errs[0].Field != tt.path {
					t.Errorf("errors %v, want one at %s", errs, tt.path)
				}
				return
			}
			if errs != nil {
				t.Fatalf("Plan: %v", errs)
			}
			txn, err := c.services.Apply(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if got := nodePorts(txn.Service()); !slices.Equal(got, tt.want) {
				t.Errorf("node ports %v, want %v", got, tt.want)
			}
			_, used := c.used()
			wantError(t, "Commit", txn.Commit(t.Context()), nil)
			if _, left := c.used(); used != tt.used || left != tt.left {
				t.Errorf("%d ports in use, %d after commit, want %d, %d", used, left, tt.used, tt.left)
			}
		})
	}
}

func TestNodePortsOnCreate(t *testing.T) {
	balancer := ofType(typeLoadBalancer)
	checkPorts(t, allocator.ClusterConfig{}, []portCase{
		{"3.5 #25 twins without number get the same", nil, []edit{withPorts("53/TCP", "53/UDP")}, []int32{30086, 30086}, "", 1, 1},
		{"3.5 #25 one twin with a number", nil, []edit{withPorts("53/TCP=30053", "53/UDP")}, []int32{30053, 30053}, "", 1, 1},
		{"3.5 the other way round", nil, []edit{withPorts("53/UDP", "53/TCP=30053")}, []int32{30053, 30053}, "", 1, 1},
		{"3.5 three protocols, the last one with a number", nil, []edit{withPorts("53/TCP", "53/UDP", "53/SCTP=30100")}, []int32{30100, 30100, 30100}, "", 1, 1},
		{"3.5 #25 twins with different numbers", nil, []edit{withPorts("53/TCP=30053", "53/UDP=30054")}, []int32{30053, 30054}, "", 2, 2},
		{"3.5 LB, auto off", nil, []edit{balancer, autoNodePorts(false), withPorts("80/TCP=30080", "443/TCP")}, []int32{30080, 0}, "", 1, 1},
		{"3.5 LB, auto not set", nil, []edit{balancer, withPorts("80/TCP")}, []int32{30086}, "", 1, 1},
		{"3.5 LB, auto on", nil, []edit{balancer, autoNodePorts(true), withPorts("80/TCP")}, []int32{30086}, "", 1, 1},
		{"3.5 type ClusterIP", nil, []edit{ofType(typeClusterIP), withPorts("80/TCP=30080")}, nil, "spec.ports[0].nodePort", 0, 0},
		{"3.5 the same number and protocol twice", nil, []edit{withPorts("80/TCP=30080", "443/TCP=30080")}, nil, "spec.ports[1].nodePort", 0, 0},
		{"3.5 different port numbers share an explicit number", nil, []edit{withPorts("53/TCP=30053", "54/UDP=30053")}, []int32{30053, 30053}, "", 1, 1},
		{"3.5 an explicit number is honoured before others are drawn", nil, []edit{withPorts("80/TCP", "443/TCP=30086")}, []int32{30087, 30086}, "", 2, 2},
		{"3.5 a twin whose number is taken for the protocol", nil, []edit{withPorts("53/TCP=30053", "54/UDP=30053", "53/UDP")}, []int32{30053, 30053, 30086}, "", 2, 2},
		{"3.5 no port number", nil, []edit{withPorts("80/TCP=70000")}, nil, "spec.ports[0].nodePort", 0, 0},
		{"3.5 a negative number", nil, []edit{withPorts("80/TCP=-1")}, nil, "spec.ports[0].nodePort", 0, 0},
	})
}

func TestNodePortsOnUpdate(t *testing.T) {
	one := service(ofType(typeNodePort), withPorts("http:80/TCP=30080"))
	checkPorts(t, allocator.ClusterConfig{}, []portCase{
		{"3.6 another number", one, []edit{withPorts("http:80/TCP=30081")}, []int32{30081}, "", 2, 1},
		{"3.6 twins without number get the same, as on create", one, []edit{withPorts("a:53/TCP", "b:53/UDP")}, []int32{30086, 30086}, "", 2, 1},
		{"3.6 different port numbers share a number", one, []edit{withPorts("a:53/TCP=30053", "b:54/UDP=30053")}, []int32{30053, 30053}, "", 2, 1},
		{"3.6 the same number and protocol twice", one, []edit{withPorts("a:53/TCP=30053", "b:54/TCP=30053")}, nil, "spec.ports[1].nodePort", 0, 0},
		{"3.6 to ClusterIP", one, []edit{ofType(typeClusterIP)}, []int32{0}, "", 1, 0},
		{"3.6 to ExternalName", one, []edit{ofType(typeExternalName)}, []int32{0}, "", 1, 0},
		{"3.6 the number moves to another entry", one, []edit{withPorts("http:80/TCP", "tls:443/TCP=30080")}, []int32{30086, 30080}, "", 2, 2},
		{"4.2 #45 omitted, same name, other port number", one, []edit{withPorts("http:8080/TCP")}, []int32{30080}, "", 1, 1},
		{"4.2 #45 omitted, other name, same port number and protocol", one, []edit{withPorts("web:80/TCP")}, []int32{30080}, "", 1, 1},
		{"4.2 omitted, other name and number", one, []edit{withPorts("tls:443/TCP")}, []int32{30086}, "", 2, 1},
		{"4.2 omitted, but the old entry is still there under its name", one, []edit{withPorts("http:8080/TCP", "web:80/TCP")}, []int32{30080, 30086}, "", 2, 2},
		{"4.2 #25 a new twin of an old port shares its number", one, []edit{withPorts("http:80/TCP", "quic:80/UDP")}, []int32{30080, 30080}, "", 1, 1},
		{
			"4.2 #45 twins keep the number they share",
			service(ofType(typeNodePort), withPorts("a:53/TCP", "b:53/UDP")),
			[]edit{withPorts("a:53/TCP", "b:53/UDP")},
			[]int32{30086, 30086},
			"", 1, 1,
		},
		{
			"4.2 #45 twins with different numbers keep them",
			service(ofType(typeNodePort), withPorts("a:53/TCP=30053", "b:53/UDP=30054")),
			[]edit{withPorts("b:53/UDP", "a:53/TCP")},
			[]int32{30054, 30053},
			"", 2, 2,
		},
	})
}

func TestUpstreamNodePorts(t *testing.T) {
	one := service(ofType(typeNodePort), withPorts("http:80/TCP=30080"))
	checkPorts(t, allocator.ClusterConfig{UpstreamNodePorts: true}, []portCase{
		{"3.5 upstream create, twins", nil, []edit{withPorts("53/TCP", "53/UDP")}, []int32{30086, 30086}, "", 1, 1},
		{"3.5 upstream create, a twin with a number", nil, []edit{withPorts("53/UDP", "53/TCP=30053")}, []int32{30053, 30053}, "", 1, 1},
		{"3.5 upstream create, different port numbers", nil, []edit{withPorts("53/TCP=30053", "54/UDP=30053")}, nil, "spec.ports[1].nodePort", 0, 0},
		{"3.6 upstream update, twins get two numbers", one, []edit{withPorts("a:53/TCP", "b:53/UDP")}, []int32{30086, 30087}, "", 3, 2},
		{"3.6 upstream update, different port numbers", one, []edit{withPorts("a:53/TCP=30053", "b:54/UDP=30053")}, []int32{30053, 30053}, "", 2, 1},
	})
}

func TestNodePortsAreOfOneService(t *testing.T) {
	t.Run("3.3 #25 another Service cannot have the number for another protocol", func(t *testing.T) {
		c := newCluster(t, "4")
		first := c.change(t, nil, service(ofType(typeNodePort), withPorts("53/TCP=30053", "53/UDP=30053")))
		before := c.state()
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, service(named("db"), ofType(typeNodePort), withPorts("53/SCTP=30053"))))
		wantError(t, "Apply", err, allocator.ErrTaken)
		if got := c.state(); got != before {
			t.Errorf("in use: %s, want %s", got, before)
		}
		c.change(t, first, nil)
		if got := c.state(); got != "" {
			t.Errorf("in use after the deletion: %s", got)
		}
	})
}

func TestHealthCheckNodePorts(t *testing.T) {
	local := service(ofType(typeLoadBalancer), localPolicy, withPorts("80/TCP=30080"))
	cluster := service(ofType(typeLoadBalancer), withPorts("80/TCP=30080"))
	toCluster := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster }
	tests := []struct {
		name   string
		before *corev1.Service
		edits  []edit
		want   int32 // -1: an error at spec.healthCheckNodePort
		left   uint64
	}{
		{"created with need, picked", nil, []edit{localPolicy}, 30086, 2},
		{"created with need, requested", nil, []edit{localPolicy, healthPort(31000)}, 31000, 2},
		{"created without need, but set", nil, []edit{healthPort(31000)}, -1, 0},
		{"created with that of a node port", nil, []edit{localPolicy, healthPort(30080)}, -1, 0},
		{"created with no port number", nil, []edit{localPolicy, healthPort(70000)}, -1, 0},
		{"not needed to needed, picked", cluster, []edit{localPolicy}, 30086, 2},
		{"not needed to needed, requested", cluster, []edit{localPolicy, healthPort(31000)}, 31000, 2},
		{"needed to not needed, left alone", local, []edit{toCluster}, 0, 1},
		{"needed to not needed, changed", local, []edit{toCluster, healthPort(31000)}, -1, 0},
		{"needed to needed, omitted", local, []edit{healthPort(0)}, 30086, 2},
		{"needed to needed, the same", local, nil, 30086, 2},
		{"needed to needed, changed", local, []edit{healthPort(31000)}, -1, 0},
		{"set while not needed", cluster, []edit{healthPort(31000)}, -1, 0},
	}
	for _, tt := range tests {
		t.Run("3.7 "+tt.name, func(t *testing.T) {
			c := newCluster(t, "4")
			base, stored := cluster, (*corev1.Service)(nil)
			if tt.before != nil {
				stored = c.change(t, nil, tt.before)
				base = stored
			}
			after := with(base, tt.edits...)
			if tt.want < 0 {
				_, errs := allocator.Plan(stored, after, c.config)
				if len(errs) != 1 || errs[0].Field != "spec.healthCheckNodePort" {
					t.Errorf("errors %v, want one at spec.healthCheckNodePort", errs)
				}
				return
			}
			if got := c.change(t, stored, after).Spec.HealthCheckNodePort; got != tt.want {
				t.Errorf("healthCheckNodePort %d, want %d", got, tt.want)
			}
			if _, left := c.used(); left != tt.left {
				t.Errorf("%d ports in use, want %d", left, tt.left)
			}
		})
	}
	t.Run("3.7 a failure is internal", func(t *testing.T) {
		c := newCluster(t, "4")
		wantError(t, "Claim", c.ports.Claim(31000, owner("db")), nil)
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, with(local, healthPort(31000))))
		wantInternal(t, err, "spec.healthCheckNodePort", true)
	})
}
