package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Render returns what a Backend with the same options restores into a fresh network
// namespace, in a stable order: one input for iptables-restore --noflush for each family,
// after a line of comment that names the program. It needs no kernel and no rights.
//
// Whatever the sysctls of the node are, loopback is guarded if NodePorts are served there, and
// invalid packets are dropped if the options say so.
func Render(p *plan.Plan, opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range families() {
		if opts.Families != nil && !slices.Contains(opts.Families, f.ip) {
			continue
		}
		l := newLayout(f, opts, p)
		l.guard = l.servesLoopback()
		_, r := build(l, all(p))
		s := newScript(opts.Name, r, &[numTables]*state{newState(), newState()}, true)
		fmt.Fprintf(&b, "# %s-restore --noflush\n%s", f.command, s.text())
	}
	return b.String(), nil
}
