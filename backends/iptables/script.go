package iptables

import (
	"slices"
	"strings"
)

// A section is the input of iptables-restore for one table, which is committed as a whole.
type section struct {
	table  table
	prefix string
	empty  []string // chains to be emptied
	fill   []*chain // chains to be made or replaced
	jumps  []string // changes of built-in chains
	remove []string // chains to be deleted, after all were emptied

	done, undo []func() // what to remember once it was committed, and once it was not
}

// drop deletes a chain, or only empties it if a foreign rule names it: the kernel would
// refuse the whole table.
func (s *section) drop(name string, isEmpty bool, pinned map[string]string) {
	isPinned := pinned[name] != ""
	if !isPinned || !isEmpty {
		s.empty = append(s.empty, name)
	}
	if !isPinned {
		s.remove = append(s.remove, name)
	}
}

// jump puts our jump first in a built-in chain, or only removes those that are there if rule is "".
func (s *section) jump(base, rule string, have []string) {
	for _, old := range have {
		s.jumps = append(s.jumps, "-D "+base+" "+old)
	}
	if rule != "" {
		s.jumps = append(s.jumps, "-I "+base+" 1 "+rule)
	}
}

// lines returns the number of lines that change something.
func (s *section) lines() int {
	n := len(s.empty) + len(s.jumps) + len(s.remove)
	for _, c := range s.fill {
		n += 1 + c.size()
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

// text returns the input, and the number of the line with which each section ends.
func (s script) text() (text string, ends []int) {
	var b strings.Builder
	n := 0
	for _, part := range s {
		before := b.Len()
		part.write(&b)
		n += strings.Count(b.String()[before:], "\n")
		ends = append(ends, n)
	}
	return b.String(), ends
}
