// Package nodeflags has the flags that tell an example which node it is for, and
// makes a [plan.Config] of them and of the Node object.
//
// It is internal to the examples, and shared by those that take the same flags.
package nodeflags

import (
	"errors"
	"flag"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy"
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

// Config returns the configuration as far as flags give it.
func (f *Flags) Config() plan.Config {
	node, _ := f.Node(nil)
	return plan.Config{
		Node:              node,
		NodePortAddresses: f.selector,
		PodInterfaces:     f.podInterfaces,
		MasqueradeAll:     f.masqueradeAll,
		ServiceCIDRs:      slices.Clone(f.serviceCIDRs),
		DenyInvalidRanges: f.denyInvalidRanges,
	}
}

// Node returns the node. The object with the name of the flag gives zone and
// addresses where flags do not, the other nodes do not matter, and pod CIDRs come from
// flags only. The problems are the values in the object that could not be read.
func (f *Flags) Node(objects []*corev1.Node) (plan.Node, []plan.Problem) {
	i := slices.IndexFunc(objects, func(n *corev1.Node) bool { return n.Name == f.node })
	n, problems := plan.Node{Name: f.node}, []plan.Problem(nil)
	if i >= 0 {
		n, problems = proxy.ReadNode(objects[i])
	}
	if f.zone != nil {
		n.Zone = *f.zone
	}
	if f.addresses != nil {
		n.Addresses = f.addresses
	}
	n.PodCIDRs = f.podCIDRs
	return n, problems
}
