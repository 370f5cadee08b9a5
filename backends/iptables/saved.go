package iptables

import (
	"fmt"
	"strings"
)

// parseSaved reads the output of iptables-save for one table: our chains by the
// digests they carry, and where others name them. It does not understand rules, so
// it does not matter how a version of iptables prints them.
func parseSaved(text, prefix string) *state {
	p := savedParser{prefix: prefix + "-", comment: jumpComment(prefix), state: newState(), counts: make(map[string]int), digests: make(map[string]string)}
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
	for name, n := range p.counts {
		p.state.chains[name] = printOf(p.digests[name], n)
	}
	return p.state
}

type savedParser struct {
	prefix, comment string
	state           *state
	counts          map[string]int
	digests         map[string]string
}

func (p *savedParser) chain(line string) {
	name, _, _ := strings.Cut(line, " ")
	if ours, ok := strings.CutPrefix(name, p.prefix); ok {
		p.counts[ours] = 0
	}
}

func (p *savedParser) rule(name, rule string) {
	if ours, ok := strings.CutPrefix(name, p.prefix); ok {
		if p.counts[ours]++; p.counts[ours] == 1 {
			p.digests[ours] = digestOf(rule)
		}
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

// digestOf returns the first word of a rule's comment.
func digestOf(rule string) string {
	comment, _ := inspect(rule)
	digest, _, _ := strings.Cut(comment, " ")
	return digest
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
