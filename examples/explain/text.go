package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vipkit/vipkit/internal/printable"
)

// writeText writes the answer for people: the same facts as the JSON, with the
// sections that are empty left out.
func writeText(w io.Writer, a *answer) error {
	var b bytes.Buffer
	for i := range a.Ports {
		writePort(&b, &a.Ports[i])
	}
	if len(a.Ports) == 0 {
		fmt.Fprint(&b, "No Service is proxied.\n\n")
	}
	writePackets(&b, a.Packets)
	writeConflicts(&b, a.Conflicts)
	writeProblems(&b, a.Problems)
	if a.Rules != "" {
		fmt.Fprintf(&b, "Rules\n%s\n", a.Rules)
	}
	_, err := w.Write(append(bytes.TrimSpace(b.Bytes()), '\n'))
	return err
}

func writePort(b *bytes.Buffer, p *portAnswer) {
	fmt.Fprintf(b, "%s  %s %s\n", p.Name, p.Protocol, p.Family)
	rows := []string{"  FRONTEND\tADDRESS\tFROM POD\tFROM NODE\tFROM OUTSIDE"}
	for _, f := range p.Frontends {
		row := fmt.Sprintf("  %s\t%s\t%s\t%s\t%s", f.Kind, f.Address, f.Actions.Pod, f.Actions.Node, f.Actions.Outside)
		if allow := allowText(f.Allow); allow != "" {
			row += "\t" + allow
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
	fmt.Fprintf(b, "  cluster pool: %s\n", listText(p.Cluster))
	if len(p.Local) > 0 {
		fmt.Fprintf(b, "  local pool:   %s\n", listText(p.Local))
	}
	if p.Topology.Mode != "" {
		fmt.Fprintf(b, "  topology:     narrowed by %s hints\n", p.Topology.Mode)
	}
	if p.Topology.Reason != "" {
		fmt.Fprintf(b, "  topology:     %s\n", p.Topology.Reason)
	}
	if p.AffinitySeconds > 0 {
		fmt.Fprintf(b, "  affinity:     a client keeps its endpoint for %s\n", time.Duration(p.AffinitySeconds)*time.Second)
	}
	if p.HealthCheckNodePort > 0 {
		fmt.Fprintf(b, "  health check: port %d\n", p.HealthCheckNodePort)
	}
	b.WriteByte('\n')
}

// writeTable aligns cells, which are separated by tabs. A buffer never fails.
func writeTable(b *bytes.Buffer, rows []string) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(t, strings.Join(rows, "\n")+"\n")
	_ = t.Flush()
}

// String returns the pool, or the verdict where there is none, and "+masq" if
// the source address changes.
func (a actionAnswer) String() string {
	s := a.Verdict
	if a.Pool != "" {
		s = a.Pool
	}
	if a.Masquerade {
		s += "+masq"
	}
	return s
}

func allowText(allow []string) string {
	switch {
	case allow == nil:
		return ""
	case len(allow) == 0:
		return "nobody is let in"
	default:
		return "only from " + strings.Join(allow, ", ")
	}
}

func listText(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func writePackets(b *bytes.Buffer, packets []packetAnswer) {
	if len(packets) == 0 {
		return
	}
	fmt.Fprint(b, "Packets\n")
	for _, p := range packets {
		fmt.Fprintf(b, "  %s  (from %s)\n    %s", p.Packet, p.Origin, p.Verdict)
		if p.Port != "" {
			fmt.Fprintf(b, " by %s", p.Port)
		}
		if len(p.Endpoints) > 0 {
			fmt.Fprintf(b, " to %s", strings.Join(p.Endpoints, " or "))
		}
		if p.Masquerade {
			fmt.Fprint(b, ", masqueraded")
		}
		fmt.Fprintf(b, "\n    because %s\n", p.Reason)
		if len(p.Exempt) > 0 {
			fmt.Fprintf(b, "    not masqueraded to %s, which is on the node itself\n", strings.Join(p.Exempt, " or "))
		}
		if len(p.Hairpin) > 0 {
			fmt.Fprintf(b, "    masqueraded to %s, which is the source itself\n", strings.Join(p.Hairpin, " or "))
		}
	}
	b.WriteByte('\n')
}

func writeConflicts(b *bytes.Buffer, conflicts []conflictAnswer) {
	if len(conflicts) == 0 {
		return
	}
	fmt.Fprint(b, "Conflicts\n")
	for _, c := range conflicts {
		fmt.Fprintf(b, "  %s %s belongs to %s; %s does not get it\n", c.Address, c.Protocol, c.Owner, c.Loser)
	}
	b.WriteByte('\n')
}

func writeProblems(b *bytes.Buffer, problems []problemAnswer) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprint(b, "Problems\n")
	for _, p := range problems {
		fmt.Fprintf(b, "  %s\n", printable.Text(p.Object+": "+p.Field+": "+p.Error))
	}
	b.WriteByte('\n')
}
