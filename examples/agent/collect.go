package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

func (m *metrics) codes(name, help string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"code"})
	m.registry.MustRegister(c)
	return c
}

// A planCollector counts what is in the current plan, when asked.
type planCollector struct {
	current func() *plan.Plan
}

// The descriptions of what a planCollector gives.
func descNoLocal() *prometheus.Desc {
	return prometheus.NewDesc("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
		"Service ports that have endpoints, but none on this node although their policy is Local.",
		[]string{labelFamily, "traffic_policy"}, nil)
}

func descPorts() *prometheus.Desc {
	return prometheus.NewDesc("vipkit_service_ports", "Service ports in the plan.", []string{labelFamily}, nil)
}

func descConflicts() *prometheus.Desc {
	return prometheus.NewDesc("vipkit_conflicts", "Claims for addresses that another Service port has.", nil, nil)
}

// Describe sends the descriptions of all metrics.
func (c *planCollector) Describe(to chan<- *prometheus.Desc) {
	to <- descNoLocal()
	to <- descPorts()
	to <- descConflicts()
}

// Collect sends the numbers. Its cost is that of a pass over the plan, for which no round
// has to wait.
func (c *planCollector) Collect(to chan<- prometheus.Metric) {
	p := c.current()
	gauge := func(desc *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		n := count(p, family)
		gauge(descPorts(), n.ports, string(family))
		gauge(descNoLocal(), n.noInternal, string(family), "internal")
		gauge(descNoLocal(), n.noExternal, string(family), "external")
	}
	gauge(descConflicts(), len(p.Conflicts()))
}

// counts are the numbers of one family.
type counts struct {
	ports, noInternal, noExternal int
}

func count(p *plan.Plan, family corev1.IPFamily) (n counts) {
	for port := range p.All() {
		if port.Family != family {
			continue
		}
		n.ports++
		if dropped(port, true) {
			n.noInternal++
		}
		if dropped(port, false) {
			n.noExternal++
		}
	}
	return n
}

// dropped reports whether clients outside the node meet a drop at the ClusterIP, or at any
// other frontend: a policy Local finds no endpoint here.
func dropped(port *plan.Port, clusterIP bool) bool {
	return slices.ContainsFunc(port.Frontends, func(f plan.Frontend) bool {
		return (f.Kind == plan.ClusterIP) == clusterIP && f.Actions[plan.FromOutside].Verdict == plan.Drop
	})
}
