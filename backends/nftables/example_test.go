package nftables_test

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// The rules of a plan can be read without a kernel and without rights.
func ExampleRender() {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	svc := &service.Service{
		Name:  web,
		Ports: []service.Port{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.10")},
	}
	http := endpoints.Key{Port: "http", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	eps := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{http: {
		{Addr: netip.MustParseAddrPort("10.244.1.5:8080"), Ready: true, Serving: true},
		{Addr: netip.MustParseAddrPort("10.244.2.7:8080"), Ready: true, Serving: true},
	}})
	p, _ := plan.New(plan.Config{}).Update(plan.Input{
		Services:  map[types.NamespacedName]*service.Service{web: svc},
		Endpoints: map[types.NamespacedName]*endpoints.Set{web: eps},
	})

	rules, err := nftables.Render(p, nftables.Options{Families: []corev1.IPFamily{corev1.IPv4Protocol}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(rules) {
		if strings.HasPrefix(line, "add element") {
			fmt.Print(line)
		}
	}
	// Output:
	// add element ip vipkit picks { tcp . 0:2 : goto pick-tcp-2 }
	// add element ip vipkit service-ips { 10.96.0.10 . tcp . 80 comment "default/web:http" : goto pick }
	// add element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 0 : 10.244.1.5 . 8080, 10.96.0.10 . 80 . 1 : 10.244.2.7 . 8080 }
	// add element ip vipkit sizes { 10.96.0.10 . tcp . 80 : 0:2 }
	// add element ip vipkit cluster-ips { 10.96.0.10 }
}
