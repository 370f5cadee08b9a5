package main

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
)

// labelFamily is "IPv4" or "IPv6".
const labelFamily = "ip_family"

// metrics are what /metrics shows. Names that begin with kubeproxy_ mean what they
// mean for kube-proxy, so that its dashboards and alerts go on; since one loop
// serves both families, those of the loop have no label ip_family. Names that
// begin with vipkit_ are our own.
type metrics struct {
	registry *prometheus.Registry

	duration, fullDuration, partialDuration prometheus.Histogram
	lastSuccess, lastQueued                 prometheus.Gauge
	failures                                prometheus.Counter
	programmed                              prometheus.Histogram

	services, slices prometheus.Counter

	healthz, livez *prometheus.CounterVec

	flowsDuration *prometheus.HistogramVec
	flowsDeleted  *prometheus.CounterVec

	statements, repairs, uncheckable, failedPorts prometheus.Counter
}

// newMetrics returns the metrics of a backend, with a registry of their own.
func newMetrics(backend string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.addSync(backend)
	m.addEvents()
	m.healthz = m.codes("kubeproxy_proxy_healthz_total", "Answers on /healthz by code.")
	m.livez = m.codes("kubeproxy_proxy_livez_total", "Answers on /livez by code.")
	m.addFlows()
	m.statements = m.counter("vipkit_sync_statements_total", "Statements that the backend committed.")
	m.repairs = m.counter("vipkit_repairs_total", "Rounds because somebody else changed the data plane.")
	m.uncheckable = m.counter("vipkit_check_errors_total", "Checks of the data plane that could not read all of it.")
	m.failedPorts = m.counter("vipkit_failed_ports_total", "Service ports that the data plane refused.")
	return m
}

func (m *metrics) addSync(backend string) {
	// kube-proxy's: 1 ms to 16 s.
	buckets := prometheus.ExponentialBuckets(0.001, 2, 15)
	m.duration = m.histogram("kubeproxy_sync_proxy_rules_duration_seconds", "Duration of rounds, failed ones included.", buckets)
	m.fullDuration = m.histogram("kubeproxy_sync_full_proxy_rules_duration_seconds", "Duration of full rounds.", buckets)
	m.partialDuration = m.histogram("kubeproxy_sync_partial_proxy_rules_duration_seconds", "Duration of rounds that looked at changes only.", buckets)
	m.lastSuccess = m.gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "When the last successful round ended.")
	m.lastQueued = m.gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "When a round was last asked for.")
	m.failures = m.counter(failuresName(backend), "Rounds in which the backend failed.")
	m.programmed = m.histogram("kubeproxy_network_programming_duration_seconds",
		"Time from a change of a pod or Service to its rules.", programmingBuckets())
}

// failuresName is kube-proxy's name of the counter, which has one for each backend.
func failuresName(backend string) string {
	if backend == backendIPTables {
		return "kubeproxy_sync_proxy_rules_iptables_restore_failures_total"
	}
	return "kubeproxy_sync_proxy_rules_" + backend + "_sync_failures_total"
}

// programmingBuckets are kube-proxy's: 0.25, 0.5, then seconds up to 59, steps of 5
// up to 115, and of 30 up to 300.
func programmingBuckets() []float64 {
	return slices.Concat(
		[]float64{0.25, 0.5},
		prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12),
		prometheus.LinearBuckets(120, 30, 7),
	)
}

func (m *metrics) addEvents() {
	m.services = m.counter("kubeproxy_sync_proxy_rules_service_changes_total", "Events of Services.")
	m.slices = m.counter("kubeproxy_sync_proxy_rules_endpoint_changes_total", "Events of EndpointSlices.")
}

func (m *metrics) addFlows() {
	m.flowsDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kubeproxy_conntrack_reconciler_sync_duration_seconds",
		Help:    "Duration of passes over the table of flows.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{labelFamily})
	m.flowsDeleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubeproxy_conntrack_reconciler_deleted_entries_total",
		Help: "Flows that were removed.",
	}, []string{labelFamily})
	m.registry.MustRegister(m.flowsDuration, m.flowsDeleted)
}

func (m *metrics) flowsCleaned(p conntrack.Pass) {
	m.flowsDuration.WithLabelValues(string(p.Family)).Observe(p.Duration.Seconds())
	m.flowsDeleted.WithLabelValues(string(p.Family)).Add(float64(p.Deleted))
}

func (m *metrics) serviceEvent() { m.services.Inc() }

func (m *metrics) sliceEvent() { m.slices.Inc() }

func (m *metrics) queued() { m.lastQueued.SetToCurrentTime() }

func (m *metrics) roundEnded(round proxy.Round) {
	res, worked := round.Backend()
	if !worked {
		return
	}
	seconds := round.Duration.Seconds()
	m.duration.Observe(seconds)
	if res.Full {
		m.fullDuration.Observe(seconds)
	} else {
		m.partialDuration.Observe(seconds)
	}
	m.statements.Add(float64(res.Stats.Written))
	m.failedPorts.Add(float64(res.Failed))
	if res.Err != nil {
		m.failures.Inc()
		return
	}
	m.lastSuccess.SetToCurrentTime()
}

// answered counts answers of the health server.
func (m *metrics) answered(path string, code int) {
	counter := m.livez
	if path == healthcheck.PathHealthz {
		counter = m.healthz
	}
	counter.WithLabelValues(strconv.Itoa(code)).Inc()
}

// watch adds the numbers that are read from the proxy when somebody asks.
func (m *metrics) watch(p *proxy.Proxy) {
	m.registry.MustRegister(&planCollector{current: p.Plan})
	m.gaugeFunc("kubeproxy_sync_proxy_rules_service_changes_pending", "Services whose changes are not written.", func() int {
		services, _ := p.Pending()
		return services
	})
	m.gaugeFunc("kubeproxy_sync_proxy_rules_endpoint_changes_pending", "Services whose changes of endpoints are not written.", func() int {
		_, endpoints := p.Pending()
		return endpoints
	})
}

func (m *metrics) gaugeFunc(name, help string, value func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

// handler serves /metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
