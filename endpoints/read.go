package endpoints

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ext"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/internal/special"
)

// A reader makes a Set of one slice.
type reader struct {
	slice  *discoveryv1.EndpointSlice
	family corev1.IPFamily
	expand func(*discoveryv1.EndpointSlice, int, Key, Endpoint) []Endpoint
	names  *interner

	// old is where endpoints that did not change are taken from.
	old *Set

	problems field.ErrorList
}

// A portList collects the endpoints of one port of the slice.
type portList struct {
	list

	number uint16
	old    []*Endpoint
}

// read returns what the slice has, nil if nothing.
func (r *reader) read() *Set {
	ports := r.ports()
	for i := range r.slice.Endpoints {
		base, ok := r.base(i)
		if !ok {
			continue
		}
		for p := range ports {
			e := base
			e.Addr = netip.AddrPortFrom(base.Addr.Addr(), ports[p].number)
			r.add(&ports[p], i, e)
		}
	}
	lists := make([]list, len(ports))
	for i := range ports {
		lists[i] = ports[i].list
	}
	return newSet(lists, r.old)
}

func (r *reader) ports() []portList {
	ports := make([]portList, 0, len(r.slice.Ports))
	for i := range r.slice.Ports {
		p := &r.slice.Ports[i]
		path := field.NewPath("ports").Index(i).Child("port")
		switch {
		case p.Port == nil:
			// The API means "all ports", which no Service proxy can do.
			r.problem(field.Required(path, "a port number is needed"))
			continue
		case *p.Port < 1 || *p.Port > 65535:
			r.problem(field.Invalid(path, *p.Port, "must be from 1 to 65535"))
			continue
		}
		k := Key{Protocol: protocol(p.Protocol), Family: r.family}
		if p.Name != nil {
			k.Port = r.names.name(*p.Name)
		}
		eps := make([]*Endpoint, 0, len(r.slice.Endpoints))
		ports = append(ports, portList{list: list{key: k, eps: eps}, number: uint16(*p.Port), old: r.old.Get(k)})
	}
	return ports
}

// base returns endpoint i without a port; ok is false if it has no usable address.
func (r *reader) base(i int) (e Endpoint, ok bool) {
	in := &r.slice.Endpoints[i]
	// The API gives further addresses no meaning of their own: they are the same
	// endpoint once more.
	if len(in.Addresses) == 0 || strings.TrimSpace(in.Addresses[0]) == "" {
		return Endpoint{}, false
	}
	addr, err := parseAddr(in.Addresses[0], r.family)
	if err != nil {
		path := field.NewPath("endpoints").Index(i).Child("addresses").Index(0)
		r.problem(field.Invalid(path, in.Addresses[0], err.Error()))
		return Endpoint{}, false
	}
	e = Endpoint{
		Addr:        netip.AddrPortFrom(addr, 0),
		Ready:       in.Conditions.Ready == nil || *in.Conditions.Ready,
		Serving:     in.Conditions.Serving == nil || *in.Conditions.Serving,
		Terminating: in.Conditions.Terminating != nil && *in.Conditions.Terminating,
		Weight:      1,
	}
	if in.NodeName != nil {
		e.NodeName = *in.NodeName
	}
	if in.Hints != nil {
		e.Hints = r.names.hints(
			sorted(in.Hints.ForZones, func(z discoveryv1.ForZone) string { return z.Name }),
			sorted(in.Hints.ForNodes, func(n discoveryv1.ForNode) string { return n.Name }))
	}
	return e, true
}

// add puts e, or what the hook makes of it, into a list.
func (r *reader) add(l *portList, index int, e Endpoint) {
	if r.expand == nil {
		l.eps = append(l.eps, r.share(l.old, &e))
		return
	}
	for _, x := range r.expand(r.slice, index, l.key, e) {
		if r.normalize(&x, index) {
			l.eps = append(l.eps, r.share(l.old, &x))
		}
	}
}

// normalize brings an endpoint made by a hook into the form that endpoints have.
// It returns false if the endpoint cannot be used.
func (r *reader) normalize(e *Endpoint, index int) bool {
	path := field.NewPath("endpoints").Index(index)
	addr := ip.Canonical(e.Addr.Addr())
	if ip.Family(addr) != r.family || e.Addr.Port() == 0 {
		r.problem(field.Invalid(path, e.Addr.String(), fmt.Sprintf("the hook must give an %s address and a port", r.family)))
		return false
	}
	e.Addr = netip.AddrPortFrom(addr, e.Addr.Port())
	if !ext.Usable(e.Ext) {
		r.problem(field.Invalid(path, fmt.Sprintf("%T", e.Ext), "Ext cannot be compared with =="))
		e.Ext = nil
	}
	own := func(name string) string { return name }
	e.Hints = r.names.hints(sorted(e.Hints.Zones(), own), sorted(e.Hints.Nodes(), own))
	return true
}

// share returns the endpoint of old that equals e, else a copy of e.
func (r *reader) share(old []*Endpoint, e *Endpoint) *Endpoint {
	if k := known(old, e); k != nil {
		return k
	}
	kept := new(Endpoint)
	*kept = *e
	kept.NodeName = r.names.name(e.NodeName)
	return kept
}

func (r *reader) problem(err *field.Error) { r.problems = append(r.problems, err) }

// search returns the index of the first endpoint that does not come before addr.
func search(eps []*Endpoint, addr netip.AddrPort) int {
	i, _ := slices.BinarySearchFunc(eps, addr, func(e *Endpoint, a netip.AddrPort) int {
		return compareText(e.Addr, a)
	})
	return i
}

// protocol resolves nil to TCP, as the apiserver does. A known protocol is
// returned as the constant, so that no memory of the object is kept.
func protocol(p *corev1.Protocol) corev1.Protocol {
	switch {
	case p == nil || *p == "" || *p == corev1.ProtocolTCP:
		return corev1.ProtocolTCP
	case *p == corev1.ProtocolUDP:
		return corev1.ProtocolUDP
	case *p == corev1.ProtocolSCTP:
		return corev1.ProtocolSCTP
	default:
		return *p
	}
}

// parseAddr reads an address of the given family.
func parseAddr(s string, family corev1.IPFamily) (netip.Addr, error) {
	a, ok := ip.ParseAddr(strings.TrimSpace(s))
	switch {
	case !ok:
		return netip.Addr{}, errors.New("must be an IP address")
	case ip.Family(a) != family:
		return netip.Addr{}, fmt.Errorf("must be of the slice's addressType %s", family)
	}
	if reason := special.Reason(a); reason != "" {
		return netip.Addr{}, errors.New(reason)
	}
	return a, nil
}

// sorted returns the names of in, each once, nil if there are none.
func sorted[T any](in []T, name func(T) string) []string {
	if len(in) == 0 {
		return nil
	}
	out := make([]string, len(in))
	for i := range in {
		out[i] = name(in[i])
	}
	slices.Sort(out)
	return slices.Compact(out)
}
