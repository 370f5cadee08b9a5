package iptables

import (
	"maps"
	"slices"
	"strings"
)

// A state is what one table of the kernel has of ours, as far as known.
type state struct {
	chains map[string]string   // name without prefix -> print
	pinned map[string]string   // name -> the first foreign rule that names the chain
	jumps  map[string][]string // built-in chain -> our jumps in it, as they follow its name
	first  map[string]string   // built-in chain -> its first rule
}

func newState() *state {
	return &state{
		chains: make(map[string]string), pinned: make(map[string]string),
		jumps: make(map[string][]string), first: make(map[string]string),
	}
}

// A section is the input of iptables-restore for one table.
type section struct {
	table  table
	prefix string
	empty  []string // chains to be emptied
	fill   []*chain // chains to be made or replaced
	jumps  []string // changes of built-in chains
	remove []string // chains to be deleted, after all were emptied
}

// plan takes up what an edit changes of a state, and changes the state to what it will be.
func (s *section) plan(edit chainEdit, have *state) {
	for _, name := range edit.names() {
		c := edit[name]
		old, exists := have.chains[name]
		switch {
		case c == nil && !exists:
		case c == nil:
			s.drop(name, old, have)
		case exists && old == c.print():
		default:
			s.fill = append(s.fill, c)
			have.chains[name] = c.print()
		}
	}
}

// drop deletes a chain, or only empties it if a foreign rule names it: the kernel would
// refuse the whole table.
func (s *section) drop(name, old string, have *state) {
	_, pinned := have.pinned[name]
	if !pinned || old != "" {
		s.empty = append(s.empty, name)
	}
	if pinned {
		have.chains[name] = ""
		return
	}
	s.remove = append(s.remove, name)
	delete(have.chains, name)
}

// jump puts our jumps first in their built-in chains, each once. Nothing is done
// where that is so.
func (s *section) jump(have *state) {
	for _, j := range hookJumps(s.table) {
		rule := j.rule(s.prefix)
		if len(have.jumps[j.base]) == 1 && have.jumps[j.base][0] == rule && have.first[j.base] == rule {
			continue
		}
		s.unjump(j.base, have)
		s.jumps = append(s.jumps, "-I "+j.base+" 1 "+rule)
		have.jumps[j.base], have.first[j.base] = []string{rule}, rule
	}
	// Another version of this package may have jumped from elsewhere.
	for _, base := range slices.Sorted(maps.Keys(have.jumps)) {
		if !slices.ContainsFunc(hookJumps(s.table), func(j hookJump) bool { return j.base == base }) {
			s.unjump(base, have)
		}
	}
}

func (s *section) unjump(base string, have *state) {
	for _, rule := range have.jumps[base] {
		s.jumps = append(s.jumps, "-D "+base+" "+rule)
	}
	delete(have.jumps, base)
	delete(have.first, base)
}

// lines returns the number of lines that change something.
func (s *section) lines() int {
	n := len(s.empty) + len(s.jumps) + len(s.remove)
	for _, c := range s.fill {
		n += 1 + len(c.rules)
	}
	return n
}

// write appends the section to the input of iptables-restore, nothing if it is empty.
//
// The nft variant keeps a sorted list of all chains in the input, and walks it from its head
// for each line (iptables 1.8.9). So chains come backwards, each with its rules, which then
// are at the head: a third of the time for 5,000 Services. The others are few.
func (s *section) write(b *strings.Builder) {
	if s.lines() == 0 {
		return
	}
	b.WriteString("*" + s.table.String() + "\n")
	byName := func(x, y *chain) int { return strings.Compare(y.name, x.name) }
	slices.SortFunc(s.fill, byName)
	var last []*chain
	for _, c := range s.fill {
		if !isHashed(c.name) {
			s.declare(b, c.name)
			last = append(last, c)
		}
	}
	slices.Sort(s.empty)
	for _, name := range slices.Backward(s.empty) {
		s.declare(b, name)
	}
	for _, c := range s.fill {
		if isHashed(c.name) {
			s.declare(b, c.name)
			writeLines(b, c.text(s.prefix))
		}
	}
	for _, c := range last {
		writeLines(b, c.text(s.prefix))
	}
	writeLines(b, s.jumps)
	for _, name := range s.remove {
		b.WriteString("-X " + s.prefix + "-" + name + "\n")
	}
	b.WriteString("COMMIT\n")
}

// declare makes a chain, or empties it if it exists.
func (s *section) declare(b *strings.Builder, name string) {
	b.WriteString(":" + s.prefix + "-" + name + " - [0:0]\n")
}

func writeLines(b *strings.Builder, lines []string) {
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
}

// A script is an input of iptables-restore: up to three commits.
type script []*section

// newScript brings a family from what it has to a revision. Jumps are looked at only
// if they are known. The states become what they will be.
func newScript(prefix string, r *revision, have *[numTables]*state, jumps bool) script {
	middle := &section{table: nat, prefix: prefix}
	middle.plan(r.nat, have[nat])
	if jumps {
		middle.jump(have[nat])
	}
	first := &section{table: filter, prefix: prefix}
	last := &section{table: filter, prefix: prefix}
	if middle.lines() > 0 {
		first.plan(r.deny, have[filter])
		last.plan(r.rest, have[filter])
	} else {
		last.plan(r.filter(), have[filter])
	}
	if jumps {
		last.jump(have[filter])
	}
	return script{first, middle, last}
}

func (s script) text() string {
	var b strings.Builder
	for _, part := range s {
		part.write(&b)
	}
	return b.String()
}

// size returns the number of lines that change something and of commits.
func (s script) size() (lines, commits int) {
	for _, part := range s {
		if n := part.lines(); n > 0 {
			lines += n
			commits++
		}
	}
	return lines, commits
}
