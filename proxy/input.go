package proxy

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The kinds of objects, as they appear in [plan.Problem].
const (
	kindService     = "Service"
	kindSlice       = "EndpointSlice"
	kindServiceCIDR = "ServiceCIDR"
	kindNode        = "Node"
)

// SetService takes the current version of a Service, new or not. The object is
// not kept. The same object again, or one that differs only in fields that are
// not used, does nothing.
func (p *Proxy) SetService(svc *corev1.Service) {
	if svc == nil {
		return
	}
	p.take(func() bool {
		changed, errs := p.services.Set(svc)
		p.report(objectName(kindService, svc.Namespace, svc.Name), errs)
		return changed
	})
}

// DeleteService forgets a Service; an unknown name does nothing.
func (p *Proxy) DeleteService(name types.NamespacedName) {
	p.take(func() bool {
		p.report(objectName(kindService, name.Namespace, name.Name), nil)
		return p.services.Delete(name)
	})
}

// ReplaceServices takes the complete list of Services: those not in it are
// forgotten. It opens GateServices. The objects are not kept.
func (p *Proxy) ReplaceServices(svcs []*corev1.Service) {
	p.take(func() bool {
		changed, errs := p.services.Replace(svcs)
		p.reportAll(kindService, errs)
		return changed
	}, GateServices)
}

// SetEndpointSlice takes the current version of an EndpointSlice, new or not.
// It may come before its Service. The object is not kept. One that differs only in fields
// that are not used does nothing.
func (p *Proxy) SetEndpointSlice(slice *discoveryv1.EndpointSlice) {
	if slice == nil {
		return
	}
	p.take(func() bool {
		changed, errs := p.endpoints.Set(slice)
		p.report(objectName(kindSlice, slice.Namespace, slice.Name), errs)
		return changed
	})
}

// DeleteEndpointSlice forgets a slice by its own name; an unknown name does
// nothing.
func (p *Proxy) DeleteEndpointSlice(name types.NamespacedName) {
	p.take(func() bool {
		p.report(objectName(kindSlice, name.Namespace, name.Name), nil)
		return p.endpoints.Delete(name)
	})
}

// ReplaceEndpointSlices takes the complete list of slices: those not in it are
// forgotten. It opens GateEndpointSlices. The objects are not kept.
func (p *Proxy) ReplaceEndpointSlices(slices []*discoveryv1.EndpointSlice) {
	p.take(func() bool {
		changed, errs := p.endpoints.Replace(slices)
		p.reportAll(kindSlice, errs)
		return changed
	}, GateEndpointSlices)
}

// take runs set, which gives an object to its tracker and reports whether that
// changed anything, asks for a round if so, and opens gates. The request comes after the
// change and the loop takes requests up before it reads the trackers, so
// that no change is overlooked.
func (p *Proxy) take(set func() bool, gates ...string) {
	defer p.events.drain()
	p.input.Lock()
	defer p.input.Unlock()
	changed := set()
	p.mu.Lock()
	defer p.mu.Unlock()
	if changed {
		p.request()
	}
	for _, gate := range gates {
		p.open(gate)
	}
}

// report and reportAll record problems. They need input.
func (p *Proxy) report(object string, errs field.ErrorList) {
	p.problemEvents(p.problems.set(object, errs))
}

func (p *Proxy) reportAll(kind string, errs map[types.NamespacedName]field.ErrorList) {
	byObject := make(map[string]field.ErrorList, len(errs))
	for name, list := range errs {
		byObject[objectName(kind, name.Namespace, name.Name)] = list
	}
	p.problemEvents(p.problems.replace(kind, byObject))
}

func (p *Proxy) problemEvents(d problemDiff) {
	for _, problem := range d.gone {
		notify(&p.events, p.opts.Observer.ProblemGone, problem)
		p.logProblem("problem gone", problem)
	}
	for _, problem := range d.found {
		notify(&p.events, p.opts.Observer.ProblemFound, problem)
		p.logProblem("problem found", problem)
	}
}
