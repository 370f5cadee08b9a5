package backendtest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A world is the desired state of the node: what package proxy keeps, without its
// timing.
type world struct {
	book     *book
	services *service.ServiceChangeTracker
	slices   *endpoints.EndpointsChangeTracker
	config   plan.Config
	plan     *plan.Plan
	cursor   plan.Cursor

	// For proxies that take objects.
	settings     Settings
	keptServices map[types.NamespacedName]*corev1.Service
	keptSlices   map[types.NamespacedName]*discoveryv1.EndpointSlice
}

func newWorld(b *book) (*world, error) {
	w := &world{
		book:     b,
		services: service.NewServiceChangeTracker(service.Options{}),
		slices:   endpoints.NewEndpointsChangeTracker(endpoints.Options{}),
		settings: Settings{NodeName: NodeName},

		keptServices: map[types.NamespacedName]*corev1.Service{},
		keptSlices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
	}
	defaults := []setting{{"node-addresses", []string{"node", "node2"}}, {"pod-cidrs", []string{"localpods"}}}
	err := w.configure(defaults)
	w.plan = plan.New(w.config)
	return w, err
}

// apply takes one step over into the plan.
func (w *world) apply(s step, variants []variant) error {
	if err := w.configure(s.settings); err != nil {
		return err
	}
	for _, v := range variants {
		if err := w.setObjects(s.objects, v); err != nil {
			return fmt.Errorf("%s: objects: %w", v, err)
		}
		for _, d := range s.deleted {
			if err := w.delete(d, v); err != nil {
				return fmt.Errorf("%s: %w", v, err)
			}
		}
	}
	services, slices := w.services.Take(), w.slices.Take()
	in := plan.Input{Config: &w.config, Services: services.Services, Endpoints: slices.Sets}
	next, diff := w.plan.Update(in)
	w.plan = next
	w.cursor.Note(diff)
	return nil
}

// sync gives a backend what has changed since the last sync. A proxy also gets objects that change
// nothing in the plan.
func (w *world) sync(ctx context.Context, b backends.Backend) error {
	d := w.cursor.Delta(w.plan)
	if d == nil {
		if o, ok := b.(*outside); ok {
			return o.Sync(ctx, nil)
		}
		return nil
	}
	err := b.Sync(ctx, d)
	w.cursor.Done(d, err)
	return err
}

// next returns what the backend will be given if nothing changes, and forgets nothing.
func (w *world) next() *plan.Delta {
	if d := w.cursor.Delta(w.plan); d != nil {
		return d
	}
	return &plan.Delta{}
}

// empty deletes all objects.
func (w *world) empty() error {
	for n := range w.keptServices {
		w.services.Delete(n)
		delete(w.keptServices, n)
	}
	for n := range w.keptSlices {
		w.slices.Delete(n)
		delete(w.keptSlices, n)
	}
	return w.apply(step{}, nil)
}

func (w *world) setObjects(text string, v variant) error {
	text, err := w.book.expand(text, v)
	if err != nil {
		return err
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		if err := w.setObject([]byte(doc), v); err != nil {
			return fmt.Errorf("%w in\n%s", err, doc)
		}
	}
	return nil
}

func (w *world) setObject(doc []byte, v variant) error {
	var kind struct{ Kind string }
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		return err
	}
	var problems field.ErrorList
	switch kind.Kind {
	case "Service":
		var s corev1.Service
		if err := yaml.UnmarshalStrict(doc, &s); err != nil {
			return err
		}
		s.Namespace = v.namespace(s.Namespace)
		_, problems = w.services.Set(&s)
		w.keepService(&s)
	case "EndpointSlice":
		var s discoveryv1.EndpointSlice
		if err := yaml.UnmarshalStrict(doc, &s); err != nil {
			return err
		}
		s.Namespace = v.namespace(s.Namespace)
		_, problems = w.slices.Set(&s)
		w.keepSlice(&s)
	default:
		return fmt.Errorf("unknown kind %q", kind.Kind)
	}
	// A scenario may have bad fields on purpose, but none that stops the whole object.
	for _, p := range problems {
		if strings.HasPrefix(p.Field, "metadata") {
			return p
		}
	}
	return nil
}

// delete removes the object named by "KIND NAMESPACE/NAME".
func (w *world) delete(text string, v variant) error {
	kind, full, _ := strings.Cut(text, " ")
	ns, name, ok := strings.Cut(strings.TrimSpace(full), "/")
	if !ok {
		return fmt.Errorf("delete %q: want KIND NAMESPACE/NAME", text)
	}
	key := types.NamespacedName{Namespace: v.namespace(ns), Name: name}
	found := false
	switch kind {
	case "Service":
		found = w.services.Delete(key)
		delete(w.keptServices, key)
	case "EndpointSlice":
		found = w.slices.Delete(key)
		delete(w.keptSlices, key)
	}
	if !found {
		return fmt.Errorf("delete %q: no such object", text)
	}
	return nil
}

// configure changes settings of the node; those not named stay.
func (w *world) configure(settings []setting) error {
	for _, s := range settings {
		if err := w.set(s); err != nil {
			return fmt.Errorf("setting %s: %w", s.key, err)
		}
	}
	var err error
	w.config, err = w.settings.Config()
	return err
}

func (w *world) set(s setting) (err error) {
	c := &w.settings
	switch s.key {
	case "zone":
		c.Zone = strings.Join(s.values, "")
	case "node-addresses":
		c.Addresses, err = w.addresses(s.values)
	case "pod-cidrs":
		c.PodCIDRs, err = w.prefixes(s.values)
	case "service-cidrs":
		c.ServiceCIDRs, err = w.prefixes(s.values)
	case "pod-interfaces":
		c.PodInterfaces = s.values
	case "masquerade-all":
		c.MasqueradeAll = s.values[0] == "true"
	case "deny-invalid-ranges":
		c.DenyInvalidRanges = s.values[0] == "true"
	case "nodeport-addresses":
		c.NodePortAddresses, err = w.selector(s.values)
	default:
		err = fmt.Errorf("unknown setting")
	}
	return err
}

// addresses returns the addresses of both families with the given names; a name that
// ends in 4 or 6 stands for one.
func (w *world) addresses(names []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, text := range w.both(names) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// prefixes is like addresses, for ranges; an address is the range of itself only.
func (w *world) prefixes(names []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range w.both(names) {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (w *world) selector(names []string) ([]string, error) {
	var values []string
	for _, name := range names {
		if name == "primary" || name == "localhost" || name == "all" {
			values = append(values, name)
			continue
		}
		prefixes, err := w.prefixes([]string{name})
		if err != nil {
			return nil, err
		}
		for _, p := range prefixes {
			values = append(values, p.String())
		}
	}
	return values, nil
}

// both replaces names by their addresses or ranges in both families, and leaves
// other words alone.
func (w *world) both(names []string) []string {
	var out []string
	for _, name := range names {
		found := false
		for _, suffix := range []string{"", "4", "6"} {
			if text, ok := w.book.texts[name+suffix]; ok {
				out, found = append(out, text), true
			}
		}
		if !found {
			out = append(out, name)
		}
	}
	return out
}
