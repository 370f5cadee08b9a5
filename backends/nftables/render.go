package nftables

import (
	"slices"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Render returns the rules of a plan as text for nft -f, in a stable order: what a
// Backend with the same options writes into a fresh network namespace, but for the shared
// chains that the plan does not need. It needs no kernel and
// no rights.
func Render(p *plan.Plan, opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	l := newLayout(opts, p)
	var edits []*edit
	for _, f := range families() {
		if opts.Families != nil && !slices.Contains(opts.Families, f.ip) {
			continue
		}
		e := newEdit(newTable(f), l, time.Time{})
		e.take(&item{kind: createItem, before: &program{}, after: f.base(l, p)})
		c := compiler{layout: l, f: f}
		for port := range p.All() {
			if port.Family == f.ip {
				e.take(&item{key: port.Key, before: &program{}, after: c.compile(assignSlots(nil, port))})
			}
		}
		edits = append(edits, e)
	}
	tx := &transaction{}
	write(tx, edits)
	text, err := tx.bytes()
	return string(text), err
}
