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
		d := newDialect(f, opts)
		d.dropInvalid, d.guardable = opts.DropInvalid, true
		edits, err := d.everything(p)
		if err != nil {
			return "", fmt.Errorf("iptables: render: %w", err)
		}
		w := d.stage(edits)
		text, _ := script{w.deny, w.nat, w.rest}.text()
		fmt.Fprintf(&b, "# %s-restore --noflush\n%s", f.command, text)
	}
	return b.String(), nil
}

// everything returns the edits that a plan is in an empty namespace.
func (d *dialect) everything(p *plan.Plan) ([]edit, error) {
	var edits []edit
	for t := range d.read {
		d.read[t] = make(map[string]string)
	}
	add := func(port *plan.Port) error {
		objects, err := d.Compile(p, port, nil)
		for _, o := range objects {
			edits = append(edits, edit{ID: o.ID, New: &o.Value})
		}
		return err
	}
	if err := add(nil); err != nil {
		return nil, err
	}
	for port := range p.All() {
		if err := add(port); err != nil {
			return nil, err
		}
	}
	return edits, nil
}
