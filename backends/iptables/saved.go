package iptables

import (
	"fmt"
	"slices"
	"strings"
)

// parseSaved reads the output of iptables-save for one table: our chains by the digests they carry, whether
// their rules are those of the digest, and where others name them. It does not understand rules: see canonical.
func parseSaved(text, prefix string) *state {
	p := savedParser{prefix: prefix + "-", comment: jumpComment(prefix), state: newState(), chains: make(map[string]*savedChain)}
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
	for name, c := range p.chains {
		known := printOf(c.digest, c.rules)
		if c.rules > 0 && c.content.text() != c.digest {
			known = altered(known)
		}
		p.state.chains[name] = known
	}
	return p.state
}

type savedParser struct {
	prefix, comment string
	state           *state
	chains          map[string]*savedChain
}

// A savedChain is what is read of a chain of ours.
type savedChain struct {
	rules   int
	digest  string   // that it carries
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
		c = &savedChain{content: newDigester(p.prefix)}
		p.chains[name] = c
	}
	return c
}

// rule reads a rule. The first of a chain of ours carries the digest in a comment, which is no part of it.
func (p *savedParser) rule(name, rule string) {
	if ours, ok := strings.CutPrefix(name, p.prefix); ok {
		c := p.ours(ours)
		words := splitQuoted(rule)
		if c.rules++; c.rules == 1 {
			c.digest, words = cutDigest(words)
		}
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

// cutDigest returns the first word of a rule's comment, and the rule without the comment.
func cutDigest(words []string) (digest string, rest []string) {
	i := slices.Index(words, "--comment")
	if i < 2 || i+1 >= len(words) {
		return "", words
	}
	digest, _, _ = strings.Cut(words[i+1], " ")
	return digest, slices.Concat(words[:i-2], words[i+2:])
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
