package allocator

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// A ServiceCIDRLister lists ServiceCIDRs. The client of client-go,
// NetworkingV1().ServiceCIDRs(), is one.
type ServiceCIDRLister interface {
	List(ctx context.Context, opts metav1.ListOptions) (*networkingv1.ServiceCIDRList, error)
}

// A ServiceCreator creates Services. The client of client-go,
// CoreV1().Services(namespace), is one.
type ServiceCreator interface {
	Create(ctx context.Context, svc *corev1.Service, opts metav1.CreateOptions) (*corev1.Service, error)
}

// DiscoverServiceRanges returns the ranges from which a cluster takes ClusterIPs,
// sorted and without duplicates: those of its ServiceCIDRs, or, if it has none or
// they cannot be listed, those that it names when it refuses a Service with an
// address that no Service has. That Service is a dry run; lister or prober may be
// nil to do without. The error says why there is no answer.
func DiscoverServiceRanges(ctx context.Context, lister ServiceCIDRLister, prober ServiceCreator) ([]netip.Prefix, error) {
	found, err := listRanges(ctx, lister)
	if len(found) == 0 && prober != nil {
		for _, unused := range []string{"192.0.2.1", "2001:db8::1"} { // documentation addresses
			found = append(found, probe(ctx, prober, unused)...)
		}
	}
	if len(found) == 0 {
		return nil, errors.Join(&Error{Op: "discover", Value: "Service ranges", Err: ErrNoRange}, err)
	}
	slices.SortFunc(found, ip.ComparePrefixes)
	return slices.Compact(found), nil
}

// listRanges returns the ranges of the ServiceCIDRs.
func listRanges(ctx context.Context, lister ServiceCIDRLister) ([]netip.Prefix, error) {
	if lister == nil {
		return nil, nil
	}
	list, err := lister.List(ctx, metav1.ListOptions{})
	if err == nil && list == nil {
		err = errNoAnswer
	}
	if err != nil {
		return nil, &Error{Op: "discover", Value: "ServiceCIDRs", Err: err}
	}
	var found []netip.Prefix
	for i := range list.Items {
		o, _ := newCIDRObject(&list.Items[i])
		for _, r := range o.ranges {
			found = append(found, r.prefix)
		}
	}
	return found, nil
}

// probe asks for a Service with an unusable address and reads the refusal.
func probe(ctx context.Context, prober ServiceCreator, unused string) []netip.Prefix {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "service-range-"},
		Spec: corev1.ServiceSpec{
			ClusterIP: unused,
			Ports:     []corev1.ServicePort{{Port: 443}},
		},
	}
	_, err := prober.Create(ctx, svc, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return nil
	}
	return ParseValidRanges(err.Error())
}

// ParseValidRanges returns the ranges that the text of an out of range error
// names, from an API server or from this package; nil if it names none.
func ParseValidRanges(text string) []netip.Prefix {
	_, rest, ok := strings.Cut(text, "The range of valid IPs is ")
	if !ok {
		return nil
	}
	if end := strings.IndexAny(rest, " \t\n\"'"); end >= 0 {
		rest = rest[:end]
	}
	var found []netip.Prefix
	for part := range strings.SplitSeq(rest, ",") {
		if p, err := netip.ParsePrefix(strings.TrimRight(part, ".;)")); err == nil {
			found = append(found, p)
		}
	}
	return found
}
