package proxies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	kubeconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/runner"

	"github.com/vipkit/vipkit/bench/cluster"
)

// A kubeProxier is what both of kube-proxy's proxiers have.
type kubeProxier interface {
	OnServiceAdd(svc *corev1.Service)
	OnServiceDelete(svc *corev1.Service)
	OnServiceSynced()
	OnEndpointSliceAdd(s *discoveryv1.EndpointSlice)
	OnEndpointSliceUpdate(before, after *discoveryv1.EndpointSlice)
	OnEndpointSliceDelete(s *discoveryv1.EndpointSlice)
	OnEndpointSlicesSynced()
	OnTopologyChange(labels map[string]string)
}

// theirs drives one of kube-proxy's proxiers without its loop, one sync at a time.
type theirs struct {
	proxier kubeProxier
	counter *counter
	step    func() error // one sync
}

// A counter counts what is written, and keeps the first error: kube-proxy's own methods
// return none.
type counter struct {
	statements int
	err        error
}

func (c *counter) add(n int, err error) error {
	c.statements += n
	if c.err == nil {
		c.err = err
	}
	return err
}

// newTheirs takes the function that syncs from the proxier's runner, where it is the
// same for both kinds, rather than by its unexported name.
func newTheirs(p kubeProxier, c *counter) (*theirs, error) {
	r, ok := field(p, "syncRunner").(*runner.BoundedFrequencyRunner)
	if !ok {
		return nil, errors.New("proxies: kube-proxy's proxier has no syncRunner")
	}
	step, ok := field(r, "fn").(func() error)
	if !ok {
		return nil, errors.New("proxies: kube-proxy's runner has no function")
	}
	t := &theirs{proxier: p, counter: c, step: step}
	t.SetZone(cluster.Zone(0))
	return t, nil
}

// field returns an unexported field of the struct that p points to.
func field(p any, name string) any { return settable(p, name).Interface() }

func settable(p any, name string) reflect.Value {
	f := reflect.ValueOf(p).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

func (t *theirs) Start(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	for _, svc := range services {
		t.proxier.OnServiceAdd(svc)
	}
	for _, s := range slices {
		t.proxier.OnEndpointSliceAdd(s)
	}
	t.proxier.OnServiceSynced()
	t.proxier.OnEndpointSlicesSynced() // the second of the two syncs
	return t.failed()
}

func (t *theirs) AddService(svc *corev1.Service)           { t.proxier.OnServiceAdd(svc) }
func (t *theirs) DeleteService(svc *corev1.Service)        { t.proxier.OnServiceDelete(svc) }
func (t *theirs) AddSlice(s *discoveryv1.EndpointSlice)    { t.proxier.OnEndpointSliceAdd(s) }
func (t *theirs) DeleteSlice(s *discoveryv1.EndpointSlice) { t.proxier.OnEndpointSliceDelete(s) }
func (t *theirs) UpdateSlice(before, s *discoveryv1.EndpointSlice) {
	t.proxier.OnEndpointSliceUpdate(before, s)
}

func (t *theirs) SetZone(zone string) {
	t.proxier.OnTopologyChange(map[string]string{corev1.LabelTopologyZone: zone})
}

func (t *theirs) Sync() error { return errors.Join(t.step(), t.failed()) }

func (t *theirs) failed() error {
	err := t.counter.err
	t.counter.err = nil
	if err != nil {
		return fmt.Errorf("proxies: kube-proxy: %w", err)
	}
	return nil
}

func (t *theirs) Written() int {
	n := t.counter.statements
	t.counter.statements = 0
	return n
}

// kubeConfig has the fields that the proxiers read, with kube-proxy's defaults. The
// intervals do not matter, as the loop does not run.
func kubeConfig() *kubeconfig.KubeProxyConfiguration {
	bit, off := int32(14), false
	return &kubeconfig.KubeProxyConfiguration{
		SyncPeriod:    metav1.Duration{Duration: time.Hour},
		MinSyncPeriod: metav1.Duration{Duration: time.Second},
		IPTables:      kubeconfig.KubeProxyIPTablesConfiguration{MasqueradeBit: &bit, LocalhostNodePorts: &off},
		NFTables:      kubeconfig.KubeProxyNFTablesConfiguration{MasqueradeBit: &bit},
	}
}

func nodeIP() net.IP { return net.ParseIP(cluster.Address) }

// quiet returns a context whose logger writes nothing.
func quiet() context.Context {
	l := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(io.Discard), textlogger.Verbosity(0)))
	klog.SetLogger(l)
	return klog.NewContext(context.Background(), l)
}
