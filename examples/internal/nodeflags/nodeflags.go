// Package nodeflags has the flags that tell an example which node it is for, and
// makes a [plan.Config] of them and of the Node and ServiceCIDR objects.
//
// It is internal to the examples, and shared by those that take the same flags.
package nodeflags

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Flags are the values of the flags. They are set by the FlagSet that Register
// was given.
type Flags struct {
	node      string
	zone      *string // nil: the Node object's
	addresses []netip.Addr

	podCIDRs          []netip.Prefix
	podInterfaces     []string
	nodePortAddresses []string
	selector          plan.NodePortSelector
	masqueradeAll     bool
	serviceCIDRs      []netip.Prefix
	denyInvalidRanges bool
}

// ErrNoNode is returned by [Flags.Check] if the flag -node is missing.
var ErrNoNode = errors.New("-node is required")

// Register adds the flags to fs. A value that cannot be read is an error of
// fs.Parse.
func Register(fs *flag.FlagSet) *Flags {
	f := &Flags{}
	fs.StringVar(&f.node, "node", "", "`name` of the node to look from (required)")
	fs.Func("zone", "`zone` of the node, instead of the label of the Node object", func(s string) error {
		f.zone = &s
		return nil
	})
	fs.Func("node-ip", "`address` of the node, instead of those of the Node object; the first per family is primary (repeats)",
		appendParsed(&f.addresses, ParseAddr))
	fs.Func("pod-cidr", "`range` of this node's own pods (repeats)", appendParsed(&f.podCIDRs, ParsePrefix))
	fs.Func("pod-interface", "`name` or prefix* of the interfaces of this node's own pods (repeats)",
		appendParsed(&f.podInterfaces, parseInterface))
	fs.Func("nodeport-addresses", "where NodePorts are served: a `CIDR`, primary (default), all or localhost (repeats)",
		f.addNodePortAddresses)
	fs.BoolVar(&f.masqueradeAll, "masquerade-all", false, "masquerade all traffic to ClusterIPs")
	fs.Func("service-cidr", "`range` of ClusterIPs: unallocated addresses in it are dropped (repeats)",
		appendParsed(&f.serviceCIDRs, ParsePrefix))
	fs.BoolVar(&f.denyInvalidRanges, "deny-invalid-ranges", false, "close a load-balancer IP of which all source ranges are invalid")
	return f
}

// Check returns what is missing after parsing.
func (f *Flags) Check() error {
	if f.node == "" {
		return ErrNoNode
	}
	return nil
}

func appendParsed[T any](list *[]T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		v, err := parse(s)
		if err != nil {
			return err
		}
		*list = append(*list, v)
		return nil
	}
}

func parseInterface(s string) (string, error) {
	if s == "" || s == "*" {
		return "", errors.New("neither a name nor a prefix")
	}
	return s, nil
}

func (f *Flags) addNodePortAddresses(s string) (err error) {
	f.nodePortAddresses = append(f.nodePortAddresses, s)
	f.selector, err = plan.ParseNodePortSelector(f.nodePortAddresses)
	return err
}

// Config returns the configuration of the node. The Node object with the name of
// the flag gives zone and addresses where flags do not; the other nodes do not
// matter. The problems are the values in the objects that could not be read.
func (f *Flags) Config(nodes []*corev1.Node, cidrs []*networkingv1.ServiceCIDR) (plan.Config, []plan.Problem) {
	node, problems := f.nodeConfig(nodes)
	ranges, more := f.ranges(cidrs)
	return plan.Config{
		Node:              node,
		NodePortAddresses: f.selector,
		PodInterfaces:     f.podInterfaces,
		MasqueradeAll:     f.masqueradeAll,
		ServiceCIDRs:      ranges,
		DenyInvalidRanges: f.denyInvalidRanges,
	}, append(problems, more...)
}

func (f *Flags) nodeConfig(nodes []*corev1.Node) (plan.Node, []plan.Problem) {
	n := plan.Node{Name: f.node, PodCIDRs: f.podCIDRs}
	var problems []plan.Problem
	for _, object := range nodes {
		if object.Name == f.node {
			n.Zone = object.Labels[corev1.LabelTopologyZone]
			n.Addresses, problems = internalIPs(object)
		}
	}
	if f.zone != nil {
		n.Zone = *f.zone
	}
	if f.addresses != nil {
		n.Addresses, problems = f.addresses, nil
	}
	return n, problems
}

// ranges returns the Service CIDRs of flags and objects, each once, sorted.
func (f *Flags) ranges(cidrs []*networkingv1.ServiceCIDR) (ranges []netip.Prefix, problems []plan.Problem) {
	ranges = slices.Clone(f.serviceCIDRs)
	for _, object := range cidrs {
		for i, text := range object.Spec.CIDRs {
			r, err := ParsePrefix(text)
			if err != nil {
				problems = append(problems, problem("ServiceCIDR "+object.Name, field.NewPath("spec", "cidrs").Index(i), err))
				continue
			}
			ranges = append(ranges, r)
		}
	}
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(ranges), problems
}

func internalIPs(node *corev1.Node) (addresses []netip.Addr, problems []plan.Problem) {
	for i, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		ip, err := ParseAddr(a.Address)
		if err != nil {
			path := field.NewPath("status", "addresses").Index(i).Child("address")
			problems = append(problems, problem("Node "+node.Name, path, err))
			continue
		}
		addresses = append(addresses, ip)
	}
	return addresses, problems
}

func problem(object string, path *field.Path, err error) plan.Problem {
	return plan.Problem{Object: object, Field: path.String(), Err: fmt.Sprint(err)}
}
