package backendtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

const (
	floodRounds  = 4 // how often the endpoints leave
	floodWorkers = 2 // connections at a time, for each family
)

// floods are played after the scenarios: a Service whose endpoints leave one after the other while new
// connections are made as fast as the machine can.
func floods() map[string]string {
	return map[string]string{
		"flood-while-endpoints-leave":               "",
		"flood-while-endpoints-leave-with-affinity": "  sessionAffinity: ClientIP\n",
	}
}

// floodScenario returns a scenario whose first step has all endpoints, and each of the
// others one less.
func floodScenario(name, spec string) (*scenario, error) {
	places := []string{"a", "b", "p", "c", "d", "q"}
	var text strings.Builder
	fmt.Fprintf(&text, "A flood of connections.\n-- config --\nprotocols: TCP\n-- objects --\n"+`kind: Service
metadata: {namespace: ns1, name: web}
spec:
  clusterIP: $vip
  ipFamilies: [$FAMILY]
%s  ports: [{protocol: $PROTOCOL, port: 80}]
`, spec)
	for n := len(places); n > 0; n-- {
		fmt.Fprintf(&text, `-- objects --
kind: EndpointSlice
metadata: {namespace: ns1, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: $FAMILY
ports: [{protocol: $PROTOCOL, port: 8080}]
endpoints:
`)
		for i, name := range places[:n] {
			fmt.Fprintf(&text, "- {addresses: [$%s], nodeName: n%d}\n", name, 1+i/3)
		}
		result := strings.Join(places[:n], " ") + " masqueraded"
		if spec != "" {
			result = "sticky " + result
		}
		fmt.Fprintf(&text, "-- expect --\nclient -> vip:80 => %s\n", result)
	}
	return parse(name, []byte(text.String()))
}

// runFloods plays the floods, one after the other: they leave the machine no time for others.
func runFloods(t *testing.T, cfg Config) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(floods())) {
		if floods()[name] != "" && slices.Contains(cfg.Limits, LongAffinity) {
			continue // clients may stay with an endpoint that left
		}
		t.Run(name, func(t *testing.T) {
			s, err := floodScenario(name, floods()[name])
			if err != nil {
				t.Fatal(err)
			}
			newPlayer(t, cfg, s).flood(t)
		})
	}
}

// flood plays a scenario of floodScenario.
func (p *player) flood(t *testing.T) {
	t.Helper()
	steps := p.scenario.steps
	p.change(t, nil, steps[0])
	p.check(t, steps[0].expect)
	stop := p.startFlood(steps[0].expect[0])
	rounds := floodRounds
	if p.quick {
		rounds = 1
	}
	for range rounds {
		for _, s := range slices.Concat(steps[1:], steps[:1]) {
			p.change(t, nil, s)
		}
	}
	total := 0
	for v, counts := range stop(t) {
		total += counts[netlab.Answered]
		if lost := counts[netlab.Refused] + counts[netlab.NoAnswer]; lost > 0 {
			t.Errorf("%s: of %d connections while endpoints leave, %d were refused and %d got no answer", v,
				lost+counts[netlab.Answered], counts[netlab.Refused], counts[netlab.NoAnswer])
		}
	}
	t.Logf("%d connections", total)
	p.check(t, steps[0].expect)
}

func (p *player) startFlood(l line) (stop func(t *testing.T) map[variant]map[netlab.Outcome]int) {
	stops := make(map[variant]func() (map[netlab.Outcome]int, error))
	for _, v := range p.scenario.variants {
		pk := l.packets(p.book, v)
		stops[v] = p.lab.Flood(netlab.Probe{
			From: pk.host, Source: pk.sources[0], Destination: pk.destination,
			Protocol: corev1.ProtocolTCP, Timeout: p.pace.answer,
		}, floodWorkers)
	}
	return func(t *testing.T) map[variant]map[netlab.Outcome]int {
		t.Helper()
		out := make(map[variant]map[netlab.Outcome]int)
		for v, stop := range stops {
			counts, err := stop()
			if err != nil {
				t.Error(err)
			}
			out[v] = counts
		}
		return out
	}
}
