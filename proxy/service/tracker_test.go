package service_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/service"
)

// A player plays one tracker and stands for a caller that puts changes in place.
type player struct {
	*service.ServiceChangeTracker
	t *testing.T
}

func newPlayer(t *testing.T, opts service.Options) player {
	t.Helper()
	return player{service.NewServiceChangeTracker(opts), t}
}

// set takes an object and checks whether its Service is dirty then.
func (p player) set(dirty bool, changes ...change) {
	p.t.Helper()
	if got, _ := p.Set(object(changes...)); got != dirty {
		p.t.Errorf("Set = %v, want %v", got, dirty)
	}
}

func (p player) delete(dirty bool) {
	p.t.Helper()
	if got := p.Delete(web); got != dirty {
		p.t.Errorf("Delete = %v, want %v", got, dirty)
	}
}

// pending checks the names that are pending, all in namespace ns.
func (p player) pending(want ...string) service.Changes {
	p.t.Helper()
	c := p.Pending()
	var got []string
	for name := range c.Services {
		got = append(got, name.Name)
	}
	slices.Sort(got)
	checkList(p.t, "Pending", got, want...)
	return c
}

// sync is pending, taken.
func (p player) sync(want ...string) service.Changes {
	p.t.Helper()
	c := p.pending(want...)
	checkDiff(p.t, "Take", c, p.Take())
	return c
}

func TestChanges(t *testing.T) {
	t.Run("C01 a Service comes", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true)
		checkDiff(t, "Ports", []service.Port{{Name: "http", Protocol: "TCP", Port: 80}}, p.sync("web").Services[web].Ports)
	})
	t.Run("C02 a Service comes and goes before anybody looks", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true)
		p.delete(false)
		p.pending()
	})
	t.Run("C03 only used fields count", func(t *testing.T) {
		metadata := func(svc *corev1.Service) {
			svc.ResourceVersion, svc.UID = "7", "uid-2"
			svc.Labels = map[string]string{"app": "web"}
			svc.Annotations = map[string]string{"service.kubernetes.io/topology-mode": "Auto"}
			svc.Spec.PublishNotReadyAddresses = true
			svc.Spec.Selector = map[string]string{"app": "web"}
			svc.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
		}
		p := newPlayer(t, service.Options{})
		p.set(true)
		first := p.pending("web").Services[web]
		p.set(true, metadata)
		if second := p.sync("web").Services[web]; second != first {
			t.Error("an unchanged Service has another pointer")
		}
		p.set(false)
		p.set(false, metadata)
		p.pending()
	})
	t.Run("C04 the answer is about the Service that was set", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true)
		p.sync("web")
		p.set(true, named("other"))
		p.set(false)
		p.set(true, named("other"))
		p.pending("other")
	})
	t.Run("C05 nothing is not a change", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		if dirty, problems := p.Set(nil); dirty || problems != nil {
			t.Errorf("Set(nil) = %v %v, want false", dirty, problems)
		}
		p.delete(false)
		p.pending()
	})
	t.Run("C07 #69 headless, ExternalName, and back", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		for _, hide := range []change{clusterIP("None"), ofType(corev1.ServiceTypeExternalName)} {
			p.set(true)
			if p.sync("web").Services[web] == nil {
				t.Error("normal Service: gone")
			}
			p.set(true, hide)
			if s, ok := p.sync("web").Services[web]; s != nil || !ok {
				t.Errorf("hidden Service: %v, want nil", s)
			}
		}
	})
	t.Run("C18 a Service goes", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true)
		p.sync("web")
		p.delete(true)
		p.delete(true)
		if s := p.sync("web").Services[web]; s != nil {
			t.Errorf("deleted Service: %v, want nil", s)
		}
		p.delete(false)
	})
	t.Run("C23 nothing new", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true)
		p.sync("web")
		p.sync()
	})
	t.Run("C24 A15 a Service without ports is a change once", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true, ports())
		if s := p.sync("web").Services[web]; s == nil || len(s.Ports) != 0 {
			t.Errorf("Service = %+v, want one without ports", s)
		}
		p.set(false, ports())
	})
	t.Run("A06 A07 #31 label of another proxy comes and goes", func(t *testing.T) {
		other := label("service.kubernetes.io/service-proxy-name", "other")
		p := newPlayer(t, service.Options{})
		p.set(true)
		first := p.sync("web").Services[web]
		p.set(true, other)
		if s := p.sync("web").Services[web]; s != nil {
			t.Errorf("with the label: %+v, want nil", s)
		}
		p.set(true)
		checkDiff(t, "without the label", first, p.sync("web").Services[web])
	})
}

func TestTake(t *testing.T) {
	a, b := externalIPs("192.0.2.1"), externalIPs("192.0.2.2")
	start := func(t *testing.T) player {
		t.Helper()
		p := newPlayer(t, service.Options{})
		p.set(true, a)
		p.sync("web")
		return p
	}
	t.Run("C08 there and back before it is taken", func(t *testing.T) {
		p := start(t)
		before := p.Take()
		p.set(true, b)
		p.pending("web")
		p.set(false, a)
		p.pending()
		checkDiff(t, "Take", before, p.Take())
	})
	t.Run("C09 there and back, taken between", func(t *testing.T) {
		p := start(t)
		p.set(true, b)
		p.sync("web")
		p.set(true, a)
		p.sync("web")
	})
	t.Run("a Service that comes and goes untaken", func(t *testing.T) {
		p := start(t)
		p.set(true, named("other"))
		if p.Delete(types.NamespacedName{Namespace: "ns", Name: "other"}) {
			t.Error("a Service that nobody has seen is dirty")
		}
		p.pending()
	})
	t.Run("an equal version is the same pointer", func(t *testing.T) {
		p := newPlayer(t, service.Options{})
		p.set(true, a)
		first := p.sync("web").Services[web]
		p.set(true, b)
		p.set(false, a)
		p.set(true, b)
		p.set(true, externalIPs("192.0.2.3"))
		p.set(false, a)
		p.delete(true)
		p.set(false, a)
		p.set(true, named("other"))
		p.set(true, b)
		p.sync("other", "web")
		p.set(true, a)
		if got := p.sync("web").Services[web]; got == first {
			t.Error("a version that was replaced is still kept")
		}
	})
	t.Run("Pending twice is the same", func(t *testing.T) {
		p := start(t)
		p.set(true, b)
		first := p.pending("web")
		second := p.sync("web")
		if first.Services[web] != second.Services[web] {
			t.Error("an unchanged Service has another pointer")
		}
		p.pending()
	})
	t.Run("#4 a change after Take is in the next one", func(t *testing.T) {
		p := start(t)
		p.set(true, b)
		p.sync("web")
		p.set(true, externalIPs("192.0.2.3"))
		c := p.sync("web")
		checkList(t, "ExternalIPs", text(c.Services[web].IPv4.ExternalIPs), "192.0.2.3")
	})
}
