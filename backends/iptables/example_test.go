package iptables_test

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// The rules of a Service without endpoints, as far as they name its address.
func ExampleRender() {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	p, _ := plan.New(plan.Config{}).Update(plan.Input{Services: map[types.NamespacedName]*service.Service{web: {
		Name:  web,
		Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.10")},
	}}})
	text, err := iptables.Render(p, iptables.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(text) {
		if _, rule, ours := strings.Cut(line, "-d 10.96.0.10/32 "); ours {
			fmt.Print(rule)
		}
	}
	// Output:
	// -p tcp -m tcp --dport 80 -j REJECT
	// -j REJECT
}
