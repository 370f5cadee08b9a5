package iptables

import (
	"fmt"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A dialect is the tables of one family, below an engine. Its objects are the chains of ports and the fixed ones, the sites of
// the trees with what is done there, and the jumps from built-in chains; the chains of trees follow from the sites.
type dialect struct {
	*family
	opts       Options
	runner     runner
	kernel     kernel
	generation func() uint32 // of nftables, 0 if it is not known

	untried []feature // what only some ports need and none needed yet
	missing []missing
	saved   *string // what start read of table nat and List has not used yet

	// What List found.
	dropInvalid bool
	guardable   bool  // route_localnet was not set, or was set by us
	localnetErr error // why it cannot be read
	pinned      [numTables]map[string]string
	suspects    bool // there were chains with other rules than those of their digests

	// The trees as they are in the kernel, the chains of a table's trees as they were read where they are not those, and our jumps.
	trees [numTrees]*dispatch
	read  [numTables]map[string]string
	jumps [numTables]map[string][]string

	// sure is set if nobody else has changed the tables since they were read; doubtful if something was refused while that was not so.
	sure, doubtful bool

	// checking is set while List is asked what has changed, not what to write next.
	checking bool

	// blind is set where iptables-save prints rules in a way that canonical does not know: then a chain
	// is recognised by the digest that it carries and by the number of its rules only.
	blind bool

	layouts [2]*layout // made last

	lines, commits int // restored since the Sync began
}

type (
	object = engine.Object[id, content]
	edit   = engine.Edit[id, content]
)

// An id names an object.
type id struct {
	kind kind
	in   int    // the table; the tree of a site
	name string // of the chain, or the built-in chain that jumps; a site
}

type kind uint8

const (
	kindChain kind = iota
	kindSite
	kindTrees    // the chains of a table's trees, as far as they are not what follows from their sites
	kindJump     // from a built-in chain
	kindLoopback // the sysctl route_localnet
)

// asWritten is the content of kindTrees that nobody altered.
const asWritten = "as written"

// String returns what is named, for the texts of Check.
func (i id) String() string {
	switch i.kind {
	case kindChain:
		return fmt.Sprintf("table %s: chain %s", table(i.in), i.name)
	case kindSite:
		return fmt.Sprintf("chain %s: the rule with %s", tree(i.in).root(), site(i.name).match())
	case kindTrees:
		return fmt.Sprintf("table %s: chains by address and port", table(i.in))
	case kindJump:
		return fmt.Sprintf("table %s: the jump from %s", table(i.in), i.name)
	case kindLoopback:
	}
	return "sysctl route_localnet"
}

// A content is a chain, or what is done by a rule.
type content struct {
	chain *chain
	do    string
}

// Equal reports whether contents are the same. Of a chain that was read only the print is known.
func (d *dialect) Equal(a, b content) bool {
	return a.do == b.do && (a.chain == nil) == (b.chain == nil) && (a.chain == nil || a.chain.equal(b.chain))
}

// A place is a site in a tree.
type place struct {
	tree tree
	site site
}

func (p place) id() id { return id{kindSite, int(p.tree), string(p.site)} }

func newDialect(f *family, o Options) *dialect {
	d := &dialect{family: f, opts: o, untried: f.optional(o)}
	for t := range tree(numTrees) {
		d.trees[t] = f.newTree(t)
	}
	return d
}

// newTree returns a tree without sites.
func (f *family) newTree(t tree) *dispatch {
	return newDispatch(t.root(), trees()[t].about, trees()[t].bits(f))
}

// layoutOf returns the layout for a plan; those of the last two are kept.
func (d *dialect) layoutOf(p *plan.Plan) *layout {
	for _, l := range d.layouts {
		if l != nil && l.plan == p {
			return l
		}
	}
	l := newLayout(d.family, d.opts, p)
	l.dropInvalid = d.dropInvalid
	l.guard = l.servesLoopback() && d.guardable
	d.layouts[0], d.layouts[1] = l, d.layouts[0]
	return l
}

// A missing is a feature that only some ports need and that is not there.
type missing struct {
	feature
	err error
}

// refused says why a port cannot be written, nil if it can.
func (d *dialect) refused(p *plan.Port) error {
	for _, m := range d.missing {
		if m.only(p) {
			return m.err
		}
	}
	return nil
}
