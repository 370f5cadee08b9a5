package service_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/service"
)

// portNames returns the keys of the ports, as in "http/TCP".
func portNames(s *service.Service) []string {
	var out []string
	for _, p := range s.Ports {
		out = append(out, p.Name+"/"+string(p.Protocol))
	}
	return out
}

func TestUpdatesLeaveNothing(t *testing.T) {
	web80 := corev1.ServicePort{Name: "web", Port: 80}
	admin := corev1.ServicePort{Name: "admin", Port: 9000}
	tests := []struct {
		name     string
		from, to []change
		want     service.Service // beside name and ClusterIP
	}{
		{
			"#18 (a) port number", nil,
			[]change{ports(corev1.ServicePort{Name: "http", Port: 81})},
			service.Service{Ports: []service.Port{{Name: "http", Protocol: "TCP", Port: 81}}},
		},
		{
			"C06 #18 (b) port name", nil,
			[]change{ports(web80)},
			service.Service{Ports: []service.Port{{Name: "web", Protocol: "TCP", Port: 80}}},
		},
		{
			"#18 (c) node port",
			[]change{nodePort(30080)},
			[]change{nodePort(30081)},
			service.Service{Ports: []service.Port{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30081}}},
		},
		{
			"#18 (d) one of two ports",
			[]change{ports(web80, admin)},
			[]change{ports(web80)},
			service.Service{Ports: []service.Port{{Name: "web", Protocol: "TCP", Port: 80}}},
		},
		{
			"#18 (f) external IP",
			[]change{externalIPs("192.0.2.1")},
			nil,
			service.Service{Ports: []service.Port{{Name: "http", Protocol: "TCP", Port: 80}}},
		},
		{
			"#18 (g) type NodePort to ClusterIP",
			[]change{ofType(corev1.ServiceTypeNodePort), nodePort(30080), externalLocal},
			nil,
			service.Service{Ports: []service.Port{{Name: "http", Protocol: "TCP", Port: 80}}},
		},
		{
			"#18 (h) protocol", nil,
			[]change{ports(corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolUDP})},
			service.Service{Ports: []service.Port{{Name: "http", Protocol: "UDP", Port: 80}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlayer(t, service.Options{})
			p.set(true, tt.from...)
			p.sync("web")
			p.set(true, tt.to...)
			want := tt.want
			want.Name = web
			want.IPv4.ClusterIP = mustRead(t).IPv4.ClusterIP
			checkDiff(t, "Service", &want, p.sync("web").Services[web])
		})
	}
	t.Run("#16 mode Proxy to VIP and back", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		for _, mode := range []corev1.LoadBalancerIPMode{"Proxy", "VIP", "Proxy"} {
			p.set(true, ingress(ipMode("203.0.113.7", mode)))
			var want []string
			if mode == corev1.LoadBalancerIPModeVIP {
				want = []string{"203.0.113.7"}
			}
			checkList(t, "LoadBalancerIPs", text(p.sync("web").Services[web].IPv4.LoadBalancerIPs), want...)
		}
	})
}

func TestRecreated(t *testing.T) {
	created := func(seconds int64) change {
		return func(svc *corev1.Service) { svc.CreationTimestamp = metav1.Unix(1_700_000_000+seconds, 0) }
	}
	start := func(t *testing.T) player {
		t.Helper()
		p := newPlayer(t, service.Options{})
		p.set(true, created(1))
		p.sync("web")
		return p
	}
	t.Run("C22 with another ClusterIP in one batch", func(t *testing.T) {
		p := start(t)
		p.delete(true)
		p.set(true, created(2), clusterIP("10.96.0.51"))
		s := p.sync("web").Services[web]
		if got := s.IPv4.ClusterIP.String(); got != "10.96.0.51" {
			t.Errorf("ClusterIP = %s, want 10.96.0.51", got)
		}
		checkList(t, "Ports", portNames(s), "http/TCP")
	})
	t.Run("#19 the same key and ClusterIP in one batch", func(t *testing.T) {
		p := start(t)
		p.delete(true)
		p.set(true, created(2))
		// The age decides who owns a contested address, so it is a change.
		s := p.sync("web").Services[web]
		if want := time.Unix(1_700_000_002, 0); s == nil || !s.Created.Equal(want) {
			t.Errorf("Service = %+v, want the one created at %v", s, want)
		}
	})
	t.Run("#19 a successor with another name takes the ClusterIP", func(t *testing.T) {
		for _, addFirst := range []bool{false, true} {
			p := start(t)
			if !addFirst {
				p.delete(true)
			}
			p.set(true, named("new"), created(2))
			if addFirst {
				p.delete(true)
			}
			c := p.sync("new", "web")
			if s := c.Services[web]; s != nil {
				t.Errorf("add first %v: predecessor = %+v, want nil", addFirst, s)
			}
			if s := c.Services[types.NamespacedName{Namespace: "ns", Name: "new"}]; s == nil {
				t.Errorf("add first %v: successor is missing", addFirst)
			}
		}
	})
}

func TestNoEventIsLost(t *testing.T) {
	t.Run("#4 changes while a reader applies what Take names", func(t *testing.T) {
		const flips = 5000
		tracker := service.NewServiceChangeTracker(service.Options{})
		versions := []*corev1.Service{object(externalIPs("192.0.2.1")), object(externalIPs("192.0.2.2")), object(clusterIP("None"))}

		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range flips {
				tracker.Set(versions[i%len(versions)])
			}
		}()

		applied := map[types.NamespacedName]*service.Service{}
		apply := func() {
			c := tracker.Take()
			maps.Copy(applied, c.Services)
		}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			apply()
		}
		want, _ := read(t, service.Options{}, versions[(flips-1)%len(versions)])
		checkDiff(t, "applied", want, applied[web])
		if c := tracker.Pending(); len(c.Services) != 0 {
			t.Errorf("Pending = %v, want nothing", c.Services)
		}
	})
}

func TestHooks(t *testing.T) {
	const key = "example.com/scheduler"
	annotated := func(v string) change {
		return func(svc *corev1.Service) { svc.Annotations = map[string]string{key: v} }
	}
	t.Run("Ext travels and is compared", func(t *testing.T) {
		p := newPlayer(t, service.Options{Ext: func(svc *corev1.Service) any { return svc.Annotations[key] }})
		p.set(true, annotated("rr"))
		if got := p.sync("web").Services[web].Ext; got != "rr" {
			t.Errorf("Ext = %v, want rr", got)
		}
		p.set(false, annotated("rr"))
		p.set(true, annotated("mh"))
	})
	t.Run("C21 a new pointer each time is a change each time", func(t *testing.T) {
		p := newPlayer(t, service.Options{Ext: func(*corev1.Service) any { return new(int) }})
		for range 3 {
			p.set(true)
			p.sync("web")
		}
	})
	for name, v := range map[string]any{
		"slice":         []string{"a"},
		"nested in any": struct{ v any }{[]int{1}},
	} {
		t.Run("Ext that cannot be compared: "+name, func(t *testing.T) {
			opts := service.Options{Ext: func(*corev1.Service) any { return v }}
			s, problems := read(t, opts, object())
			if s == nil || s.Ext != nil {
				t.Errorf("Service = %+v, want one without Ext", s)
			}
			checkList(t, "problems", problems, "ext")
		})
	}
	t.Run("Filter hides, the last answer counts", func(t *testing.T) {
		var asked []string
		p := newPlayer(t, service.Options{Filter: func(svc *corev1.Service) bool {
			asked = append(asked, svc.Name)
			return svc.Annotations[key] != "hide"
		}})
		p.set(true)
		p.sync("web")
		p.set(true, annotated("hide"))
		if s := p.sync("web").Services[web]; s != nil {
			t.Errorf("hidden Service = %+v, want nil", s)
		}
		p.set(true)
		p.set(false, label("service.kubernetes.io/headless", ""), named("headless"))
		if want := []string{"web", "web", "web"}; !slices.Equal(asked, want) {
			t.Errorf("Filter was asked about %q, want %q", asked, want)
		}
	})
	t.Run("a hook may use the tracker", func(t *testing.T) {
		var tracker *service.ServiceChangeTracker
		tracker = service.NewServiceChangeTracker(service.Options{Filter: func(*corev1.Service) bool {
			return len(tracker.Pending().Services) == 0
		}})
		if dirty, _ := tracker.Set(object()); !dirty {
			t.Error("Set = false, want true")
		}
	})
}
