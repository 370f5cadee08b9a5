package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/printable"
	"github.com/vipkit/vipkit/topology"
)

// String returns the whole plan as text: equal plans give equal text. It has the
// configuration, every port with its frontends, actions and endpoints, the
// health checks, the conflicts and the problems. The form is for people and for
// golden files, and may change.
func (p *Plan) String() string {
	p = p.orEmpty()
	var b strings.Builder
	p.cfg.dump(&b)
	for port := range p.All() {
		b.WriteByte('\n')
		port.dump(&b)
	}
	sep := "\n"
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, sep+format+"\n", args...)
		sep = ""
	}
	for h := range p.AllHealth() {
		line("health %s port %d: %s", printable.Text(h.Name.String()), h.Port, list(h.Local))
	}
	for _, c := range p.Conflicts() {
		line("conflict %s", c)
	}
	for _, pr := range p.Problems() {
		line("problem %s", pr)
	}
	return b.String()
}

func (c Config) dump(b *strings.Builder) {
	fmt.Fprintf(b, "node %q zone %q\n", c.Node.Name, c.Node.Zone)
	fmt.Fprintf(b, "  addresses: %s\n", list(c.Node.Addresses))
	fmt.Fprintf(b, "  pods: %s interfaces: %s\n", list(c.Node.PodCIDRs), list(c.PodInterfaces))
	fmt.Fprintf(b, "  Service CIDRs: %s\n", list(c.ServiceCIDRs))
	for _, f := range families() {
		fmt.Fprintf(b, "  NodePorts %s: %s\n", short(f), c.nodePorts(f))
	}
	if c.MasqueradeAll {
		b.WriteString("  masquerade all\n")
	}
	if c.DenyInvalidRanges {
		b.WriteString("  deny invalid ranges\n")
	}
}

// String returns the addresses, "any local address" where that holds, "-" for none.
func (n NodePortAddresses) String() string {
	var words []string
	if n.Any {
		words = append(words, "any local address")
	}
	for _, a := range n.Addrs {
		words = append(words, a.String())
	}
	for _, p := range n.Prefixes {
		words = append(words, p.String())
	}
	return list(words)
}

// String returns a line for people.
func (c Conflict) String() string {
	addr := c.Addr.String()
	if !c.Addr.Addr().IsValid() {
		addr = fmt.Sprintf(":%d", c.Addr.Port())
	}
	return fmt.Sprintf("%s %s: %s has it, %s lost", addr, strings.ToLower(string(c.Protocol)), c.Owner, c.Loser)
}

// String returns the port as [Plan.String] shows it.
func (p *Port) String() string {
	if p == nil {
		return "<nil>"
	}
	var b strings.Builder
	p.dump(&b)
	return b.String()
}

func (p *Port) dump(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s %s\n", p.PortName, strings.ToLower(string(p.Protocol)), short(p.Family))
	for i := range p.Frontends {
		p.Frontends[i].dump(b)
	}
	dumpPool(b, "cluster", p.Cluster)
	dumpPool(b, "local", p.Local)
	if !equalLists(p.Serving, p.Reachable) {
		dumpPool(b, "serving", p.Serving)
	}
	if !equalLists(p.Reachable, p.Cluster) {
		dumpPool(b, "reachable", p.Reachable)
	}
	if p.Mode != topology.ModeNone || p.Reason != "" {
		fmt.Fprintf(b, "  topology: %s\n", strings.Trim(fmt.Sprintf("%s (%s)", p.Mode, p.Reason), " ()"))
	}
	if p.AffinityTimeout != 0 {
		fmt.Fprintf(b, "  affinity: %s\n", p.AffinityTimeout)
	}
	if p.HealthCheckNodePort != 0 {
		fmt.Fprintf(b, "  health check: :%d\n", p.HealthCheckNodePort)
	}
	if p.Ext != nil {
		fmt.Fprintf(b, "  ext: %s\n", printable.Text(fmt.Sprint(p.Ext)))
	}
}

func (f *Frontend) dump(b *strings.Builder) {
	var line strings.Builder
	fmt.Fprintf(&line, "  %-20s %-14s", f, f.Kind)
	for o, a := range f.Actions {
		fmt.Fprintf(&line, " %s=%-12s", Origin(o), a)
	}
	if f.Restricted {
		fmt.Fprintf(&line, " allow=%s", list(f.Allow))
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

func dumpPool(b *strings.Builder, name string, eps []*endpoints.Endpoint) {
	if len(eps) > 0 {
		fmt.Fprintf(b, "  %s: %s\n", name, list(eps))
	}
}

// list joins with spaces; "-" stands for nothing.
func list[T any](items []T) string {
	if len(items) == 0 {
		return "-"
	}
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = fmt.Sprint(item)
	}
	return strings.Join(words, " ")
}

func short(f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return "v6"
	}
	return "v4"
}
