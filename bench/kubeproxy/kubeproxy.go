// Package kubeproxy drives kube-proxy's own proxiers, without its server, informers and loop: events in the form of an
// informer, and one sync at a time.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	kubeconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/runner"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"github.com/vipkit/vipkit/backends/backendtest"
)

// The proxiers.
const (
	NFTables = "nftables"
	IPTables = "iptables" // with the system's program
	IPVS     = "ipvs"
)

// Config says what is driven.
type Config struct {
	Plane    string // one of the proxiers
	Families []corev1.IPFamily
	Settings backendtest.Settings

	// Count, if not nil, gets the number of statements of each transaction, and its error. A line of
	// iptables-restore is one, and so is an object, rule or element of nftables. Not called for ipvs.
	Count func(statements int, err error)

	health *healthcheck.ProxyHealthServer
}

// A Proxy is one proxier for each family, all in the network namespace of the caller. It is not safe for concurrent use.
type Proxy struct {
	families []family
	errs     []error // of writes, which kube-proxy's own methods do not return
}

// A family is a proxier and the function of one sync.
type family struct {
	proxier proxier
	step    func() error
}

// A proxier is what all of kube-proxy's proxiers have.
type proxier interface {
	OnServiceAdd(svc *corev1.Service)
	OnServiceUpdate(before, after *corev1.Service)
	OnServiceDelete(svc *corev1.Service)
	OnServiceSynced()
	OnEndpointSliceAdd(s *discoveryv1.EndpointSlice)
	OnEndpointSliceUpdate(before, after *discoveryv1.EndpointSlice)
	OnEndpointSliceDelete(s *discoveryv1.EndpointSlice)
	OnEndpointSlicesSynced()
	OnTopologyChange(labels map[string]string)
	OnServiceCIDRsChanged(cidrs []string)
}

// New returns a Proxy that has seen nothing yet.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{}
	// Health-check ports ask it; it does not serve by itself.
	cfg.health = healthcheck.NewProxyHealthServer("127.0.0.1:0", time.Hour, nil)
	count := cfg.Count
	cfg.Count = func(n int, err error) {
		if err != nil {
			p.errs = append(p.errs, err)
		}
		if count != nil {
			count(n, err)
		}
	}
	for _, f := range cfg.Families {
		one, err := cfg.proxier(f)
		if err != nil {
			return nil, fmt.Errorf("kubeproxy: %s, %s: %w", cfg.Plane, f, err)
		}
		one.OnServiceCIDRsChanged(texts(cfg.Settings.ServiceCIDRs))
		step, err := stepOf(one)
		if err != nil {
			return nil, err
		}
		p.families = append(p.families, family{proxier: one, step: step})
	}
	p.SetZone(cfg.Settings.Zone)
	return p, nil
}

func (cfg Config) proxier(f corev1.IPFamily) (proxier, error) {
	switch cfg.Plane {
	case NFTables:
		return cfg.newNFTables(f)
	case IPTables:
		return cfg.newIPTables(f)
	case IPVS:
		return cfg.newIPVS(f)
	default:
		return nil, errors.New("no such proxier")
	}
}

// stepOf takes the function that syncs from the proxier's runner, where it is the same for all kinds, rather than by its
// unexported name.
func stepOf(p proxier) (func() error, error) {
	r, ok := settable(p, "syncRunner").Interface().(*runner.BoundedFrequencyRunner)
	if !ok {
		return nil, errors.New("kubeproxy: the proxier has no syncRunner")
	}
	step, ok := settable(r, "fn").Interface().(func() error)
	if !ok {
		return nil, errors.New("kubeproxy: the proxier's runner has no function")
	}
	return step, nil
}

// settable returns an unexported field of the struct that p points to.
func settable(p any, name string) reflect.Value {
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// SetService tells of a change; nil is a Service that does not exist. Services that kube-proxy's informer does not select
// are left out.
func (p *Proxy) SetService(before, after *corev1.Service) {
	before, after = selected(before), selected(after)
	for _, f := range p.families {
		switch {
		case before == nil && after == nil:
		case before == nil:
			f.proxier.OnServiceAdd(after)
		case after == nil:
			f.proxier.OnServiceDelete(before)
		default:
			f.proxier.OnServiceUpdate(before, after)
		}
	}
}

// selected returns nil for what kube-proxy's informers leave out.
func selected(s *corev1.Service) *corev1.Service {
	if s == nil || !watched(s) || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return s
}

func watched(o metav1.Object) bool {
	_, other := o.GetLabels()["service.kubernetes.io/service-proxy-name"]
	_, headless := o.GetLabels()[corev1.IsHeadlessService]
	return !other && !headless
}

// SetSlice is SetService for EndpointSlices.
func (p *Proxy) SetSlice(before, after *discoveryv1.EndpointSlice) {
	if before != nil && !watched(before) {
		before = nil
	}
	if after != nil && !watched(after) {
		after = nil
	}
	for _, f := range p.families {
		switch {
		case before == nil && after == nil:
		case before == nil:
			f.proxier.OnEndpointSliceAdd(after)
		case after == nil:
			f.proxier.OnEndpointSliceDelete(before)
		default:
			f.proxier.OnEndpointSliceUpdate(before, after)
		}
	}
}

// SetZone changes the label of the Node.
func (p *Proxy) SetZone(zone string) {
	labels := map[string]string{}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	for _, f := range p.families {
		f.proxier.OnTopologyChange(labels)
	}
}

// Start writes everything for the first time. The error is that of a write; kube-proxy itself hides it.
func (p *Proxy) Start() error {
	for _, f := range p.families {
		f.proxier.OnServiceSynced()
		f.proxier.OnEndpointSlicesSynced() // syncs
	}
	return p.failed()
}

// Sync writes what changed.
func (p *Proxy) Sync() error {
	var errs []error
	for _, f := range p.families {
		errs = append(errs, f.step())
	}
	return errors.Join(append(errs, p.failed())...)
}

// StopHealth closes the health-check ports of Services.
func (p *Proxy) StopHealth() error {
	var errs []error
	for _, f := range p.families {
		server, ok := settable(f.proxier, "serviceHealthServer").Interface().(healthcheck.ServiceHealthServer)
		if !ok {
			return errors.New("kubeproxy: the proxier has no serviceHealthServer")
		}
		errs = append(errs, server.SyncServices(nil))
	}
	return errors.Join(errs...)
}

func (p *Proxy) failed() error {
	err := errors.Join(p.errs...)
	p.errs = nil
	if err != nil {
		return fmt.Errorf("kubeproxy: %w", err)
	}
	return nil
}

// kubeConfig has the fields that the proxiers read, with kube-proxy's defaults. The intervals do not matter, as the
// loop does not run.
func (cfg Config) kubeConfig() *kubeconfig.KubeProxyConfiguration {
	bit, off := int32(14), false
	c := &kubeconfig.KubeProxyConfiguration{
		SyncPeriod:        metav1.Duration{Duration: time.Hour},
		MinSyncPeriod:     metav1.Duration{Duration: time.Second},
		IPTables:          kubeconfig.KubeProxyIPTablesConfiguration{MasqueradeBit: &bit, LocalhostNodePorts: &off},
		NFTables:          kubeconfig.KubeProxyNFTablesConfiguration{MasqueradeBit: &bit},
		NodePortAddresses: cfg.nodePortAddresses(),
	}
	c.Linux.MasqueradeAll = cfg.Settings.MasqueradeAll
	return c
}

// nodePortAddresses are what kube-proxy's server makes of the words before it makes proxiers, and of ours.
func (cfg Config) nodePortAddresses() (out []string) {
	for _, v := range cfg.Settings.NodePortAddresses {
		switch v {
		case "primary":
			for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
				if a, ok := cfg.primary(f); ok {
					out = append(out, netip.PrefixFrom(a, a.BitLen()).String())
				}
			}
		case "all":
			out = append(out, "0.0.0.0/0", "::/0")
		case "localhost":
			out = append(out, "127.0.0.0/8", "::1/128")
		default:
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		cfg.Settings.NodePortAddresses = []string{"primary"}
		return cfg.nodePortAddresses()
	}
	return out
}

func (cfg Config) primary(f corev1.IPFamily) (netip.Addr, bool) {
	i := slices.IndexFunc(cfg.Settings.Addresses, func(a netip.Addr) bool { return a.Is4() == (f == corev1.IPv4Protocol) })
	if i < 0 {
		return netip.Addr{}, false
	}
	return cfg.Settings.Addresses[i], true
}

// nodeIP is nil if the node has no address of the family, which makes kube-proxy take loopback.
func (cfg Config) nodeIP(f corev1.IPFamily) net.IP {
	if a, ok := cfg.primary(f); ok {
		return net.IP(a.AsSlice())
	}
	return nil
}

// detector tells pods of the node from others.
func (cfg Config) detector(f corev1.IPFamily) proxyutil.LocalTrafficDetector {
	for _, c := range cfg.Settings.PodCIDRs {
		if c.Addr().Is4() == (f == corev1.IPv4Protocol) {
			return proxyutil.NewDetectLocalByCIDR(c.String())
		}
	}
	for _, name := range cfg.Settings.PodInterfaces {
		if prefix, ok := cutStar(name); ok {
			return proxyutil.NewDetectLocalByInterfaceNamePrefix(prefix)
		}
		return proxyutil.NewDetectLocalByBridgeInterface(name)
	}
	return proxyutil.NewNoOpLocalDetector()
}

func cutStar(name string) (prefix string, ok bool) {
	if n := len(name); n > 0 && name[n-1] == '*' {
		return name[:n-1], true
	}
	return name, false
}

func texts(prefixes []netip.Prefix) []string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p.String())
	}
	return out
}

// quiet returns a context whose logger writes nothing.
func quiet() context.Context {
	l := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(io.Discard), textlogger.Verbosity(0)))
	klog.SetLogger(l)
	return klog.NewContext(context.Background(), l)
}
