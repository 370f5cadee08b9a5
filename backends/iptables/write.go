package iptables

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/vipkit/vipkit/backends/engine"
)

// A writing is one Write at work: three commits, one after the other. Frontends that come to deny do so before table nat lets
// go of them, and those that forward no longer deny only after it took them.
type writing struct {
	d        *dialect
	deny     *section // table filter, first
	nat      *section
	rest     *section // table filter, last
	sites    [numTrees]map[site]string
	loopback string // the value of route_localnet, "" to leave it
}

// Write restores what the edits change. An error of iptables-restore that names a line wraps [engine.ErrRefused]: sections before
// it are committed, and it and those after it are not. But if somebody else has changed the tables, that may
// be the reason, and they have to be listed first.
func (d *dialect) Write(ctx context.Context, edits []edit) error {
	w := d.stage(edits)
	if w.loopback == "0" { // before the rules go that guard it
		if err := d.setLoopback(w.loopback); err != nil {
			return err
		}
	}
	if err := w.restore(ctx); err != nil {
		return err
	}
	if w.loopback == "1" {
		return d.setLoopback(w.loopback)
	}
	return nil
}

// stage takes up edits in the trees, and returns what has to be restored for that.
func (d *dialect) stage(edits []edit) *writing {
	section := func(t table) *section { return &section{table: t, prefix: d.opts.Name} }
	w := &writing{d: d, deny: section(filter), nat: section(nat), rest: section(filter)}
	for _, x := range edits {
		switch x.ID.kind {
		case kindChain:
			w.chain(x)
		case kindSite:
			w.site(x)
		case kindJump:
			w.jump(x)
		case kindTrees: // as d.read says
		case kindLoopback:
			w.loopback = "0"
			if x.New != nil {
				w.loopback = x.New.do
			}
		}
	}
	w.moveTrees()
	return w
}

func (w *writing) chain(x edit) {
	to := w.rest
	switch {
	case table(x.ID.in) == nat:
		to = w.nat
	case x.New != nil && isHashed(x.ID.name):
		to = w.deny
	}
	if x.New != nil {
		to.fill = append(to.fill, x.New.chain)
		return
	}
	to.drop(x.ID.name, x.Old != nil && x.Old.chain.print() == "", w.d.pinned[x.ID.in])
}

func (w *writing) site(x edit) {
	if w.sites[x.ID.in] == nil {
		w.sites[x.ID.in] = make(map[site]string)
	}
	var do string
	if x.New != nil {
		do = x.New.do
	}
	w.sites[x.ID.in][site(x.ID.name)] = do
}

func (w *writing) jump(x edit) {
	to, t, base := w.rest, table(x.ID.in), x.ID.name
	if t == nat {
		to = w.nat
	}
	have := w.d.jumps[t]
	var rule string
	var next []string
	if x.New != nil {
		rule, next = x.New.do, []string{x.New.do}
	}
	to.jump(base, rule, have[base])
	to.done = append(to.done, func() {
		if have == nil {
			have = make(map[string][]string)
			w.d.jumps[t] = have
		}
		have[base] = next
	})
}

// moveTrees changes the trees. Those that deny take up what is new first and forget the old
// last, if table nat is written in between, and if it is known what they have.
func (w *writing) moveTrees() {
	all := func(t tree) map[site]string { return w.sites[t] }
	w.turn(w.nat, all)
	if w.nat.lines() == 0 || w.d.read[filter] != nil {
		w.rest.fill, w.deny.fill = append(w.rest.fill, w.deny.fill...), nil
	} else {
		w.turn(w.deny, func(t tree) map[site]string {
			if !trees()[t].denying {
				return nil
			}
			come := maps.Clone(w.sites[t])
			maps.DeleteFunc(come, func(_ site, do string) bool { return do == "" })
			return come
		})
	}
	w.turn(w.rest, all)
}

// turn changes the trees of a section's table. If it is not known which chains they have, all of these become what they should be.
func (w *writing) turn(s *section, changes func(tree) map[site]string) {
	read, edit := w.d.read[s.table], make(chainEdit)
	for name := range read {
		edit[name] = nil
	}
	for t, k := range trees() {
		if k.table != s.table {
			continue
		}
		tr, next := w.d.trees[t], changes(tree(t))
		old := tr.was(next)
		s.undo = append(s.undo, func() { tr.set(old) })
		chains := tr.update(next)
		if read != nil {
			chains = tr.all()
		}
		maps.Copy(edit, chains)
	}
	for _, name := range slices.Sorted(maps.Keys(edit)) {
		c := edit[name]
		have, known := read[name]
		switch {
		case c == nil:
			s.drop(name, false, w.d.pinned[s.table])
		case !known || have != c.print():
			s.fill = append(s.fill, c)
		}
	}
	s.done = append(s.done, func() { w.d.read[s.table] = nil })
}

// restore gives everything to iptables-restore, and remembers what is in place then.
func (w *writing) restore(ctx context.Context) error {
	parts := script{w.deny, w.nat, w.rest}
	text, ends := parts.text()
	committed, err := len(parts), error(nil)
	if text != "" {
		before := w.d.generation()
		err = w.d.runner.restore(ctx, w.d.family, text, false)
		if err == nil && before != 0 && before == w.d.generation() {
			err = errNothingWritten
		}
	}
	if err != nil {
		line, refused := refusedLine(err)
		if !refused {
			return err
		}
		committed = slices.IndexFunc(ends, func(end int) bool { return line <= end })
		if committed < 0 {
			committed = len(parts) - 1 // the last COMMIT
		}
	}
	halfway := w.settled(parts, committed)
	if err != nil && !w.d.sure {
		if w.d.sure = w.d.isAsRemembered(ctx); !w.d.sure {
			w.d.doubtful = true
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case halfway:
		return fmt.Errorf("%w: %w: %w", engine.ErrRefused, engine.ErrHalfway, err)
	default:
		return fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
}

// settled remembers that the first sections are committed and the others not, and reports whether that changed anything.
func (w *writing) settled(parts script, committed int) (changed bool) {
	for _, part := range parts[:committed] {
		if n := part.lines(); n > 0 {
			changed = true
			w.d.lines += n
			w.d.commits++
		}
		for _, f := range part.done {
			f()
		}
	}
	for _, part := range slices.Backward(parts[committed:]) {
		for _, f := range slices.Backward(part.undo) {
			f()
		}
	}
	return changed
}
