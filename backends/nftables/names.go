package nftables

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// hashText returns 80 bits of a digest as 16 lower-case letters and digits.
func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// ruleHash is the comment of a rule: by it a rule is compared without being understood.
func ruleHash(rule string) string { return hashText(rule) }

// print returns what a chain is recognised by: its hook and the hashes of its rules
// in order.
func (c chain) print() string {
	parts := make([]string, 0, len(c.rules)+1)
	if c.hook != nil {
		parts = append(parts, hookPrint(*c.hook))
	}
	for _, r := range c.rules {
		parts = append(parts, ruleHash(r))
	}
	return strings.Join(parts, " ")
}

func hookPrint(h hook) string { return string(h.kind) + "/" + string(h.at) + "/" + string(h.priority) }

// marker names the empty chain that tells which layout a table has. Tables of another
// layout are replaced as a whole; within one layout only differences are written.
func (f *family) marker(l *layout) string {
	var text strings.Builder
	fmt.Fprintln(&text, layoutVersion, l.mark, l.affinityClients)
	for _, b := range boxes() {
		typ, typeof := f.typeText(b)
		fmt.Fprintln(&text, b.name, typ, typeof, b.interval)
	}
	for _, c := range f.baseChains(l) {
		fmt.Fprintln(&text, c.name, *c.hook)
	}
	return "layout-" + hashText(text.String())
}
