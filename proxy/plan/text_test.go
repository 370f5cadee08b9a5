package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// TestTextsArePrintable gives names that no API server would let pass to all texts of a plan.
func TestTextsArePrintable(t *testing.T) {
	const evil = "x\x1b[2J\nfake line\u202e"
	name := types.NamespacedName{Namespace: "ns" + evil, Name: "web" + evil}
	port := service.PortName{NamespacedName: name, Port: "http" + evil, Protocol: corev1.ProtocolTCP}
	s := &service.Service{
		Name: name, Ports: []service.Port{{Name: port.Port, Protocol: port.Protocol, Port: 80, NodePort: 30080}},
		IPv4:          service.Addresses{ClusterIP: addr("10.96.0.1")},
		ExternalLocal: true, HealthCheckNodePort: 31000, Ext: evil,
	}
	other := *s
	other.Name.Name = "zz" + evil
	cfg := plan.Config{Node: plan.Node{Name: "node" + evil, Zone: evil, PodCIDRs: nil, Addresses: nil}}
	eps := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: port.Port, Protocol: port.Protocol, Family: corev1.IPv4Protocol}: {{Addr: netip.MustParseAddrPort("10.244.2.1:80"), Ready: true, Serving: true, NodeName: "b" + evil}},
	})
	p, _ := plan.New(cfg).Update(plan.Input{
		Services:  map[types.NamespacedName]*service.Service{s.Name: s, other.Name: &other},
		Endpoints: map[types.NamespacedName]*endpoints.Set{s.Name: eps},
	})
	texts := map[string]string{
		"Problem":        fmt.Sprint(plan.Problem{Object: "Service " + name.String(), Field: "metadata.labels[" + evil + "]", Err: evil}),
		"Problem, %+v":   fmt.Sprintf("%+v", &plan.Problem{Object: evil}),
		"Problems":       fmt.Sprint(p.Problems()),
		"Conflicts":      fmt.Sprint(p.Conflicts()),
		"PortName":       port.String(),
		"PartialError":   (&plan.PartialError{Ports: map[plan.Key]error{{PortName: port, Family: corev1.IPv4Protocol}: errors.New("no")}}).Error(),
		"plan, by lines": strings.ReplaceAll(p.String(), "\n", ""),
	}
	for _, dst := range []string{"10.96.0.1:80", "10.96.0.1:81"} {
		texts["reason "+dst] = p.Trace(plan.Packet{Source: addr("203.0.113.1"), Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP}).Reason
	}
	for what, text := range texts {
		t.Run("fault F34 "+what, func(t *testing.T) {
			if text == "" || text == "[]" {
				t.Fatal("no text")
			}
			if strings.ContainsAny(text, "\x1b\n\u202e") || strings.Contains(p.String(), "\nfake") {
				t.Errorf("%q has control characters", text)
			}
		})
	}
	if len(p.Conflicts()) == 0 || len(p.Problems()) == 0 {
		t.Errorf("conflicts %v, problems %v, want some", p.Conflicts(), p.Problems())
	}
	t.Run("fault F34 a usual Problem", func(t *testing.T) {
		got := fmt.Sprint(plan.Problem{Object: "Service default/web", Field: "spec.externalIPs[1]", Err: "Invalid"})
		if want := "Service default/web: spec.externalIPs[1]: Invalid"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
