package iptables

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A state is what one table of the kernel has of ours.
type state struct {
	chains map[string]*chain   // by name without prefix, but for those of trees
	nodes  map[string]*chain   // of trees
	pinned map[string]string   // name -> the first foreign rule that names the chain
	jumps  map[string][]string // built-in chain -> our jumps in it, as they follow its name
	first  map[string]string   // built-in chain -> its first rule
}

// A snapshot is both tables.
type snapshot struct {
	tables [numTables]*state
	trees  [numTrees]*dispatch
	exact  [numTables]bool // the chains of trees are those that follow from their sites
}

// List reads both tables of the family. Unless it is for Check it remembers what Write has to know.
func (d *dialect) List(ctx context.Context) (iter.Seq2[id, content], error) {
	var now snapshot
	for t := range table(numTables) {
		text, err := d.save(ctx, t)
		if err != nil {
			return nil, err
		}
		now.tables[t] = parseSaved(t, text, d.opts.Name)
		if d.blind {
			now.tables[t].believe()
		}
		d.readTrees(&now, t)
	}
	loopback := d.readSysctls(now.tables[filter].chains[chainLocalnet] != nil)
	if !d.checking {
		d.remember(&now)
	}
	return func(yield func(id, content) bool) {
		_ = d.yieldTables(&now, yield) && loopback && yield(id{kind: kindLoopback}, content{do: "1"})
	}, nil
}

// save does not ask again for what start has just read.
func (d *dialect) save(ctx context.Context, t table) (string, error) {
	if saved := d.saved; t == nat && saved != nil {
		d.saved = nil
		return *saved, nil
	}
	return d.runner.save(ctx, d.family, t)
}

// readTrees finds out the sites of a table's trees: those that are known, if their chains are there.
func (d *dialect) readTrees(now *snapshot, t table) {
	nodes := now.tables[t].nodes
	now.exact[t] = equals(treesOf(&d.trees, t), nodes)
	for i, k := range trees() {
		switch {
		case k.table != t:
		case now.exact[t]:
			now.trees[i] = d.trees[i]
		default:
			now.trees[i] = d.newTree(tree(i))
			now.trees[i].fill(nodes, d.opts.Name)
		}
	}
	now.exact[t] = now.exact[t] || equals(treesOf(&now.trees, t), nodes)
}

// treesOf returns the trees of a table.
func treesOf(all *[numTrees]*dispatch, t table) []*dispatch {
	var out []*dispatch
	for i, k := range trees() {
		if k.table == t {
			out = append(out, all[i])
		}
	}
	return out
}

// remember keeps what Write has to know.
func (d *dialect) remember(now *snapshot) {
	d.trees, d.suspects, d.sure, d.layouts = now.trees, false, true, [2]*layout{}
	for t, s := range now.tables {
		d.jumps[t], d.pinned[t], d.read[t] = s.jumps, s.pinned, nil
		if !now.exact[t] {
			d.read[t] = prints(s.nodes)
		}
		d.suspects = d.suspects || len(s.altered()) > 0
	}
}

func prints(chains map[string]*chain) map[string]string {
	out := make(map[string]string, len(chains))
	for name, c := range chains {
		out[name] = c.print()
	}
	return out
}

// yieldTables yields the objects of both tables. It returns false if no more are wanted.
func (d *dialect) yieldTables(now *snapshot, yield func(id, content) bool) bool {
	for t, s := range now.tables {
		for name, c := range s.chains {
			// What is empty and in use by others is as good as gone.
			gone := s.pinned[name] != "" && c.print() == "" && name != chainCanary
			if !gone && !yield(id{kindChain, t, name}, content{chain: c}) {
				return false
			}
		}
		for base := range s.jumps {
			if !yield(id{kindJump, t, base}, content{do: d.jumpOf(s, base)}) {
				return false
			}
		}
		do := "altered"
		if now.exact[t] {
			do = asWritten
		}
		if len(s.nodes) > 0 && !yield(id{kind: kindTrees, in: t}, content{do: do}) {
			return false
		}
	}
	for t, tr := range now.trees {
		for at, do := range tr.to {
			if !yield(place{tree(t), at}.id(), content{do: do}) {
				return false
			}
		}
	}
	return true
}

// jumpOf returns the jump from a built-in chain, or what is wrong with it. That it is no longer the first rule is not for Check.
func (d *dialect) jumpOf(s *state, base string) string {
	jumps := s.jumps[base]
	if len(jumps) == 1 && (d.checking || s.first[base] == jumps[0]) {
		return jumps[0]
	}
	return fmt.Sprintf("%d jumps after %q", len(jumps), s.first[base])
}

// lookAgain reads chains back if some looked altered and were restored since. If one still looks so, nobody altered
// it: this version of the programs prints rules in another way.
func (d *dialect) lookAgain(ctx context.Context) error {
	if !d.suspects {
		return nil
	}
	d.suspects = false
	for t := range table(numTables) {
		text, err := d.runner.save(ctx, d.family, t)
		if err != nil {
			return err
		}
		d.blind = d.blind || len(parseSaved(t, text, d.opts.Name).altered()) > 0
	}
	return nil
}

// isAsRemembered reports whether nobody has changed the tables, as far as writing to them is concerned.
func (d *dialect) isAsRemembered(ctx context.Context) bool {
	for t := range table(numTables) {
		text, err := d.runner.save(ctx, d.family, t)
		if err != nil {
			return false
		}
		s := parseSaved(t, text, d.opts.Name)
		if d.blind {
			s.believe()
		}
		if len(s.altered()) > 0 || d.read[t] == nil && !equals(treesOf(&d.trees, t), s.nodes) || !maps.Equal(d.pinned[t], s.pinned) {
			return false
		}
	}
	return true
}

// altered returns the chains whose rules are not those of the digest that they carry.
func (s *state) altered() []*chain {
	var out []*chain
	for _, chains := range []map[string]*chain{s.chains, s.nodes} {
		for _, c := range chains {
			if c.isAltered() {
				out = append(out, c)
			}
		}
	}
	return out
}

// believe takes all chains for what they say.
func (s *state) believe() {
	for _, c := range s.altered() {
		c.known = strings.TrimSuffix(c.known, alteredMark)
	}
}

// parseSaved reads the output of iptables-save for one table: our chains by the digests they carry, whether
// their rules are those of the digest, and where others name them. It does not understand rules: see canonical.
func parseSaved(t table, text, prefix string) *state {
	p := savedParser{table: t, prefix: prefix + "-", comment: jumpComment(prefix), chains: make(map[string]*savedChain), state: &state{
		chains: make(map[string]*chain), nodes: make(map[string]*chain), pinned: make(map[string]string),
		jumps: make(map[string][]string), first: make(map[string]string),
	}}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, ":"):
			p.chain(line[1:])
		case strings.HasPrefix(line, "-A "):
			name, rule, _ := strings.Cut(line[len("-A "):], " ")
			p.rule(name, rule)
		}
	}
	for _, c := range p.chains {
		c.known = printOf(c.carries, len(c.saved), c.about)
		if len(c.saved) > 0 && c.content.text() != c.carries {
			c.known += alteredMark
		}
	}
	return p.state
}

type savedParser struct {
	table           table
	prefix, comment string
	state           *state
	chains          map[string]*savedChain
}

// A savedChain is what is read of a chain of ours.
type savedChain struct {
	*chain
	carries string   // the digest
	content digester // of its rules
}

func (p *savedParser) chain(line string) {
	name, _, _ := strings.Cut(line, " ")
	if ours, ok := strings.CutPrefix(name, p.prefix); ok {
		p.ours(ours)
	}
}

func (p *savedParser) ours(name string) *savedChain {
	c := p.chains[name]
	if c == nil {
		c = &savedChain{chain: &chain{name: name, wasRead: true}, content: newDigester(p.prefix)}
		p.chains[name] = c
		if isTreeChain(p.table, name) {
			p.state.nodes[name] = c.chain
		} else {
			p.state.chains[name] = c.chain
		}
	}
	return c
}

// rule reads a rule. The first of a chain of ours carries the digest in a comment, which is no part of it.
func (p *savedParser) rule(name, rule string) {
	if ours, ok := strings.CutPrefix(name, p.prefix); ok {
		c := p.ours(ours)
		words := splitQuoted(rule)
		if len(c.saved) == 0 {
			c.carries, c.about, words = cutDigest(words)
		}
		c.saved = append(c.saved, rule)
		c.content.add(words)
		return
	}
	if _, seen := p.state.first[name]; !seen {
		p.state.first[name] = rule
	}
	if !strings.Contains(rule, p.prefix) {
		return
	}
	comment, target := inspect(rule)
	ours, ok := strings.CutPrefix(target, p.prefix)
	switch {
	case !ok:
	case comment == p.comment:
		p.state.jumps[name] = append(p.state.jumps[name], rule)
	case p.state.pinned[ours] == "":
		p.state.pinned[ours] = fmt.Sprintf("%s: %s", name, rule)
	}
}

// cutDigest returns the first word of a rule's comment and what follows it, and the rule without the comment.
func cutDigest(words []string) (digest, about string, rest []string) {
	i := slices.Index(words, "--comment")
	if i < 2 || i+1 >= len(words) {
		return "", "", words
	}
	digest, about, _ = strings.Cut(words[i+1], " ")
	return digest, about, slices.Concat(words[:i-2], words[i+2:])
}

// inspect returns the comment of a rule and the chain or target it goes to.
func inspect(rule string) (comment, target string) {
	words := splitQuoted(rule)
	for i, w := range words[:max(0, len(words)-1)] {
		switch w {
		case "--comment":
			comment = words[i+1]
		case "-j", "-g":
			target = words[i+1]
		}
	}
	return comment, target
}

// splitQuoted splits at spaces outside double quotes, and takes quotes and backslashes off.
func splitQuoted(s string) []string {
	if !strings.ContainsRune(s, '"') {
		return strings.Fields(s)
	}
	var out []string
	var word strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			out = append(out, word.String())
			word.Reset()
		}
		begun = false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted && i+1 < len(s):
			i++
			word.WriteByte(s[i])
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			end()
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	end()
	return out
}
